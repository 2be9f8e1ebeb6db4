"""Trains one reference model in Python PyTorch and prints one JSON line a step: index, dur_ns, loss.

    python train.py --spec LAUNCH.json --weights FILE --data FILE --steps N

Uses the settings that PyTorch documents as fastest for eager training in fp32 on one thread of a CPU:

- channels-last memory format for convolutions (tutorial "Channels Last Memory Format in PyTorch");
- a fused optimizer, except for the ResNet: the fused kernel copies every weight that is in channels-last format, so
  that the plain loop is faster there;
- gradients set to none and not to zero, subnormal numbers flushed to zero, one thread within and between operations
  ("Performance Tuning Guide").

Not used: torch.compile, which would compare a compiler with none; and another malloc, which would serve both sides.
"""

import argparse
import json
import time
from pathlib import Path

import torch
from models import build
from safetensors_file import read
from torch.nn import functional as F


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--spec", type=Path, required=True)
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--steps", type=int, required=True)
    arguments = parser.parse_args()

    torch.set_num_threads(1)
    torch.set_num_interop_threads(1)
    torch.set_flush_denormal(True)

    spec = json.loads(arguments.spec.read_text())["program"]["training"]
    convolutional = "resnet" in spec["workload"]["model"]
    memory_format = torch.channels_last if convolutional else torch.contiguous_format

    model = build(spec["workload"]["model"])
    load_weights(model, read(arguments.weights))
    model = model.to(memory_format=memory_format).train()
    optimizer = build_optimizer(model, spec["workload"]["optimizer"], fused=not convolutional)
    batches = read_batches(arguments.data, memory_format)

    for index in range(arguments.steps):
        begin_ns = time.perf_counter_ns()
        inputs, targets = batches[index % len(batches)]
        outputs = model(inputs)
        loss = F.cross_entropy(outputs.flatten(0, -2), targets.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        loss_value = loss.item()
        dur_ns = time.perf_counter_ns() - begin_ns
        print(json.dumps({"index": index, "dur_ns": dur_ns, "loss": loss_value}))


def load_weights(model: torch.nn.Module, weights: dict[str, torch.Tensor]) -> None:
    """Sets every parameter and buffer; only the count of batches, which training does not read, may be missing."""
    missing, unexpected = model.load_state_dict(weights, strict=False)
    missing = [name for name in missing if not name.endswith("num_batches_tracked")]
    if missing or unexpected:
        raise SystemExit(f"the exported weights lack {missing} and have {unexpected}, which the reference model does not")


def build_optimizer(model: torch.nn.Module, settings: dict, fused: bool) -> torch.optim.Optimizer:
    """`{"sgd": {"learning_rate": 0.1, ...}}` to the optimizer of that name."""
    ((name, constants),) = settings.items()
    common = {"lr": constants["learning_rate"], "weight_decay": constants["weight_decay"], "fused": fused}
    if name == "sgd":
        return torch.optim.SGD(model.parameters(), momentum=constants["momentum"], **common)
    kinds = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}
    betas = (constants["beta1"], constants["beta2"])
    return kinds[name](model.parameters(), betas=betas, eps=constants["epsilon"], **common)


def read_batches(path: Path, memory_format: torch.memory_format) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """The exported batches in order. They are made ready beforehand, which favours this side a little."""
    tensors = read(path)
    batches = []
    for index in range(len(tensors) // 2):
        inputs, targets = tensors[f"inputs.{index}"], tensors[f"targets.{index}"]
        if inputs.dim() == 4:
            inputs = inputs.contiguous(memory_format=memory_format)
        batches.append((inputs, targets))
    return batches


if __name__ == "__main__":
    main()
