"""Measures the cost of a hook on PyTorch's optimizer steps for the training.

`register_optimizer_step_post_hook` reports the steps of unmodified programs. On a GPU it fires when a step is
launched; timing events tell when it was done. They come from a pool and are polled, never waited for.
"""

import os
import statistics
import subprocess
import sys
import time
from collections import deque
from pathlib import Path

from gemm import visible
from probes import NotPossible, ask, tell
from small_training import Training


def probe(device: str, quick: bool) -> bool:
    lengths_ms = (1,) if quick else (1, 50)
    return all([ask(question(step_ms), in_child, device, step_ms, quick) for step_ms in lengths_ms])


def question(step_ms: int) -> str:
    return f"cost of the hook on steps of about {step_ms} ms"


def in_child(device: str, step_ms: int, quick: bool) -> None:
    """Runs in a process of its own, which sees this device alone."""
    command = [sys.executable, str(Path(__file__).resolve()), device, str(step_ms), str(int(quick))]
    done = subprocess.run(command, env={**os.environ, **visible(device)}, capture_output=True, text=True)
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        raise NotPossible(f"the training process ended: {lines[-1] if lines else 'it said nothing'}")
    print(done.stdout, end="", flush=True)


class Hook:
    """Records a time for each step, and an event for each, every tenth, or no step."""

    def __init__(self, torch, every: int):
        self._times_ns = deque(maxlen=65536)
        self._every, self._count = every, 0
        self._free = [torch.cuda.Event(enable_timing=True) for _ in range(64)] if every else []
        self._running = deque()
        self.device_ms = deque(maxlen=65536)

    def __call__(self, optimizer, arguments, keywords) -> None:
        self._times_ns.append(time.monotonic_ns())
        self._count += 1
        if not self._every or self._count % self._every:
            return
        while len(self._running) > 1 and self._running[1].query():
            earlier = self._running.popleft()
            self.device_ms.append(earlier.elapsed_time(self._running[0]))
            self._free.append(earlier)
        if self._free:
            event = self._free.pop()
            event.record()
            self._running.append(event)


def cost(device: str, step_ms: int, quick: bool) -> None:
    """The variants take turns, back and forth, so that a drift of the machine's speed affects all alike."""
    import torch
    from torch.optim.optimizer import register_optimizer_step_post_hook

    training = Training(device, step_ms)
    ways = {"no hook": None, "no events": 0, "an event each tenth step": 10, "an event each step": 1}
    if training._device == "cpu":
        ways = {"no hook": None, "no events": 0}
    rounds, stretch_s = (1, 0.1) if quick else (2, 0.25 if step_ms < 10 else 0.5)
    observed_ns = {way: [] for way in ways}
    for order in [list(ways), list(ways)[::-1]] * rounds:
        for way in order:
            handle = None if ways[way] is None else register_optimizer_step_post_hook(Hook(torch, ways[way]))
            training.run(2)
            observed_ns[way].append(training.mean_step_ns(stretch_s))
            if handle:
                handle.remove()
    plain_ns = statistics.median(observed_ns["no hook"])
    differences_us = {way: (statistics.median(times) - plain_ns) / 1e3 for way, times in observed_ns.items()}
    words = ", ".join(f"{way} {value:+.1f} us" for way, value in differences_us.items() if way != "no hook")
    spread_us = (max(observed_ns["no hook"]) - min(observed_ns["no hook"])) / 1e3
    tell(
        question(step_ms),
        f"step of {plain_ns / 1e6:.3f} ms; {words}; stretches without a hook differ by up to {spread_us:.1f} us",
        step_ns=round(plain_ns),
        **{f"{way.replace(' ', '_')}_us": value for way, value in differences_us.items()},
    )


if __name__ == "__main__":
    device, step_ms, quick = sys.argv[1:]
    cost(device, int(step_ms), quick == "1")
