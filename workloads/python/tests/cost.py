"""Prints the cost of the hook per step: `python3 workloads/python/tests/cost.py [STEPS]`.

Programs that do nothing but call an optimizer are run with the hook and without it, forth and back, so that a drift of the
machine's speed falls on both alike. The optimizer is PyTorch's SGD of one number where there is a PyTorch, and does nothing
at all otherwise. What is printed is the median over pairs of launches, and the least and the largest of them.
"""

import statistics
import sys

from harness import Launch, python_with_torch

PAIRS = 7

PROGRAM = """
import time, torch
parameter = torch.nn.Parameter(torch.zeros(1)) if hasattr(torch, "nn") else torch.Parameter(1)
parameter.grad = torch.zeros(1) if hasattr(torch, "nn") else None
optimizer = torch.optim.SGD([parameter], **({"lr": 0.1} if hasattr(torch, "nn") else {}))
for _ in range(1000): optimizer.step()
begin_ns = time.monotonic_ns()
for _ in range(%d): optimizer.step()
print((time.monotonic_ns() - begin_ns) / %d)
"""


def step_ns(python, steps: int, hooked: bool) -> float:
    with Launch(python=python or sys.executable, fake=python is None) as launch:
        if not hooked:
            del launch.environment["TANDEM_EVENTS"]
        ended = launch.run(PROGRAM % (steps, steps))
        said = len(launch.steps())
        assert said == (steps + 999 if hooked else 0), "%d steps of %d were told" % (said, steps)
        return float(ended.stdout)


def main() -> None:
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    python = python_with_torch()
    costs_us, alone_us = [], []
    for pair in range(PAIRS):
        order = (True, False) if pair % 2 else (False, True)
        taken = {hooked: step_ns(python, steps, hooked) / 1e3 for hooked in order}
        costs_us.append(taken[True] - taken[False])
        alone_us.append(taken[False])
    print("PyTorch" if python else "no PyTorch, an empty optimizer")
    print("a step without the hook: %.2f us" % statistics.median(alone_us))
    print("the hook: %.2f us per step (%.2f to %.2f)" % (statistics.median(costs_us), min(costs_us), max(costs_us)))


if __name__ == "__main__":
    main()
