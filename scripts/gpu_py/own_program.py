"""Trains a small network with PyTorch, as a program of a user's own does, and prints the mean duration of its steps.

    python3 own_program.py DEVICE WIDTH STEPS

Its output is one JSON line with the mean over the second half of its steps, in nanoseconds.
"""

import json
import sys
import time

import torch

LAYERS = 8
SAMPLES = 256


def main(device: str, width: int, steps: int) -> None:
    layers = [torch.nn.Linear(width, width) for _ in range(LAYERS)]
    model = torch.nn.Sequential(*layers).to(device)
    sample = torch.randn(SAMPLES, width, device=device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    for step in range(steps):
        if step == steps // 2:
            begin_ns = now_ns(device)
        optimizer.zero_grad(set_to_none=True)
        model(sample).square().mean().backward()
        optimizer.step()
    step_ns = (now_ns(device) - begin_ns) / (steps - steps // 2)
    print(json.dumps({"step_ns": step_ns, "device": torch.tensor(0.0, device=device).device.type}))


def now_ns(device: str) -> int:
    if device == "cuda":
        torch.cuda.synchronize()
    return time.monotonic_ns()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
