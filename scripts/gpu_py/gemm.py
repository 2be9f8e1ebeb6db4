"""A process that multiplies matrices on a GPU until its input ends, and prints the number of products.

    python3 gemm.py SIZE QUEUE

Waits for the device after every QUEUE products, so that at most QUEUE are in flight. Prints one JSON line each time.
It exits with nothing in flight, when its input ends or on SIGTERM.
"""

import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import nvml
from probes import NotPossible


class Gemm:
    """A handle on such a process."""

    def __init__(self, device: str, variables: dict[str, str], size: int = 8192, queue: int = 20):
        command = [sys.executable, str(Path(__file__).resolve()), str(size), str(queue)]
        clean = {name: value for name, value in os.environ.items() if not name.startswith("CUDA_MPS_")}
        self._lines: list[dict] = []
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**clean, **visible(device), **variables},
        )
        threading.Thread(target=self._follow, daemon=True).start()

    def wait_for_first(self, limit_s: float = 20.0) -> None:
        """Waits until it computes, after it has loaded PyTorch and initialized the device."""
        until_s = time.monotonic() + limit_s
        while not self._lines:
            if self._process.poll() is not None:
                said = self._process.stderr.read().strip().splitlines()
                last = said[-1] if said else "it said nothing"
                raise NotPossible(f"the client ended before its first product: {last}")
            if time.monotonic() > until_s:
                raise NotPossible(f"the client made no product within {limit_s:g} s")
            time.sleep(0.02)

    def _follow(self) -> None:
        for line in self._process.stdout:
            self._lines.append(json.loads(line))

    @property
    def pid(self) -> int:
        return self._process.pid

    def rate_per_s(self, seconds: float) -> float:
        """The products per second over a time that begins now."""
        begin = len(self._lines) - 1
        time.sleep(seconds)
        first, last = self._lines[begin], self._lines[-1]
        if last["done"] == first["done"]:
            raise NotPossible(f"the client made no product in {seconds:g} s")
        return (last["done"] - first["done"]) / (last["mono_ns"] - first["mono_ns"]) * 1e9

    def end(self) -> str | None:
        """Returns the measure that was needed if closing its input was not enough. SIGKILL is the last resort."""
        self._process.stdin.close()
        for number, wait_s in ((None, 10.0), (signal.SIGTERM, 5.0), (signal.SIGKILL, 5.0)):
            if number is not None:
                self._process.send_signal(number)
            try:
                self._process.wait(wait_s)
                return number and f"the client had to be ended by {signal.Signals(number).name}"
            except subprocess.TimeoutExpired:
                continue
        return "the client could not be ended"


def visible(device: str) -> dict[str, str]:
    """Makes a device, in the driver's numbering, the only one that a process sees."""
    if device.startswith("cpu:"):
        return {"CUDA_VISIBLE_DEVICES": ""}
    return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": nvml.visible_entry(device)}


def main() -> None:
    import torch

    size, queue = map(int, sys.argv[1:])
    asked = []
    signal.signal(signal.SIGTERM, lambda *_: asked.append(True))
    left, right = (torch.randn(size, size, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    done = 0
    while not asked and not select.select([sys.stdin], [], [], 0)[0]:
        for _ in range(queue):
            left @ right
        torch.cuda.synchronize()
        done += queue
        print(json.dumps({"mono_ns": time.monotonic_ns(), "done": done}), flush=True)


if __name__ == "__main__":
    main()
