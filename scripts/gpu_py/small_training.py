"""A training with steps of a requested duration, for the probes of hooks on PyTorch's optimizer steps."""

import math
import time

LAYERS = 8


class Training:
    """A multilayer perceptron whose width is chosen for steps of a requested duration."""

    def __init__(self, device: str, step_ms: int):
        import torch

        torch.set_num_threads(1)
        self._torch, self._device = torch, device.split(":")[0]
        self._build(64)
        self.run(3)
        # The width grows until the step has the duration, which is proportional to the square of the width.
        while (measured_ms := self.mean_step_ns(0.2) / 1e6) < step_ms * 0.7 and self._width < 16384:
            self._build(math.ceil(self._width * min(4, math.sqrt(step_ms / measured_ms)) / 64) * 64)
            self.run(3)

    def _build(self, width: int) -> None:
        torch = self._torch
        self._width = width
        layers = [torch.nn.Linear(width, width) for _ in range(LAYERS)]
        self._model = torch.nn.Sequential(*layers).to(self._device)
        self._input = torch.randn(256, width, device=self._device)
        self._optimizer = torch.optim.SGD(self._model.parameters(), lr=1e-4)

    def step(self) -> None:
        self._optimizer.zero_grad(set_to_none=True)
        self._model(self._input).square().mean().backward()
        self._optimizer.step()

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.step()
        self.wait()

    def wait(self) -> None:
        if self._device == "cuda":
            self._torch.cuda.synchronize()

    def mean_step_ns(self, seconds: float) -> float:
        """The mean over this number of seconds, with a wait for the device only at both ends."""
        self.wait()
        begin_ns, steps = time.monotonic_ns(), 0
        while time.monotonic_ns() - begin_ns < seconds * 1e9:
            self.step()
            steps += 1
        self.wait()
        return (time.monotonic_ns() - begin_ns) / steps
