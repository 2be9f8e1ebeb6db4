"""Probes whether the driver moves a process off the device and back (cuCheckpointProcess*), and its speed."""

import ctypes
import json
import os
import subprocess
import sys
import time
from ctypes import byref, c_int, c_uint, c_ulonglong
from pathlib import Path

from gemm import visible
from probes import NotPossible, ask, tell

CALLS = ("GetState", "Lock", "Checkpoint", "Restore", "Unlock")
RUNNING, LOCKED, CHECKPOINTED = 0, 1, 2
STATES = ("running", "locked", "checkpointed", "failed")
GIB = 4
LOCK_LIMIT_MS = 10_000


def probe(device: str, quick: bool) -> bool:
    driver = Driver()
    alone = ask(f"a process that holds {GIB} GiB", there_and_back, driver, device, 0)
    question = f"a process that holds {GIB} GiB and has data-loader workers"
    return ask(question, there_and_back, driver, device, 2) and alone


class LockArguments(ctypes.Structure):
    _fields_ = [("timeout_ms", c_uint), ("reserved", c_uint), ("more_reserved", c_ulonglong * 7)]


class Driver:
    def __init__(self):
        try:
            self._cuda = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise NotPossible(str(error)) from None
        if missing := [call for call in CALLS if not hasattr(self._cuda, f"cuCheckpointProcess{call}")]:
            raise NotPossible(f"this driver has no cuCheckpointProcess{missing[0]}; it came with CUDA 12.8")
        self._check("cuInit", self._cuda.cuInit(0))

    def _check(self, call: str, code: int) -> None:
        if code:
            text = ctypes.c_char_p()
            self._cuda.cuGetErrorName(code, byref(text))
            raise NotPossible(f"{call}: {(text.value or b'').decode() or f'error {code}'}")

    def call(self, name: str, pid: int) -> float:
        """Returns the duration in seconds."""
        arguments = byref(LockArguments(timeout_ms=LOCK_LIMIT_MS)) if name == "Lock" else None
        function = getattr(self._cuda, f"cuCheckpointProcess{name}")
        begin_s = time.monotonic()
        self._check(f"cuCheckpointProcess{name}", function(c_int(pid), arguments))
        return time.monotonic() - begin_s

    def state(self, pid: int) -> int:
        state = c_int()
        code = self._cuda.cuCheckpointProcessGetState(c_int(pid), byref(state))
        self._check("cuCheckpointProcessGetState", code)
        return state.value

    def undo(self, pid: int) -> None:
        """Makes the process run again from any state, after any error."""
        if self.state(pid) == CHECKPOINTED:
            self.call("Restore", pid)
        if self.state(pid) == LOCKED:
            self.call("Unlock", pid)


def there_and_back(driver: Driver, device: str, workers: int) -> None:
    command = [sys.executable, str(Path(__file__).resolve()), str(workers)]
    child = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **visible(device)},
    )
    try:
        before = said(child)
        seconds = {}
        try:
            for name in ("Lock", "Checkpoint", "Restore", "Unlock"):
                seconds[f"{name.lower()}_s"] = driver.call(name, child.pid)
        finally:
            driver.undo(child.pid)
        state = STATES[driver.state(child.pid)]
        child.stdin.write("\n")
        child.stdin.flush()
        after = said(child)
    finally:
        child.stdin.close()
        try:
            child.wait(10)
        except subprocess.TimeoutExpired:
            child.terminate()
    same = "and holds what it held" if before["sum"] == after["sum"] else "but holds other numbers than before"
    words = ", ".join(f"{name.removesuffix('_s')} {value:.2f} s" for name, value in seconds.items())
    who = f"a process that holds {GIB} GiB" + (" and has data-loader workers" if workers else "")
    tell(who, f"{words}; it is {state} again {same}", bytes=GIB << 30, **seconds)


def said(child: subprocess.Popen) -> dict:
    line = child.stdout.readline()
    if not line:
        raise NotPossible("the process ended")
    return json.loads(line)


def hold(workers: int) -> None:
    """The child: fills memory, prints its content, and prints it again for each line of input."""
    import torch

    held = torch.arange(GIB << 28, device="cuda", dtype=torch.int32)
    batches = iter(torch.utils.data.DataLoader(range(10_000), num_workers=workers)) if workers else None
    while True:
        if batches:
            next(batches)
        # In pieces, because one sum over everything would double the memory.
        total = sum(int(piece.sum()) for piece in held.split(1 << 26))
        print(json.dumps({"sum": total}), flush=True)
        if not sys.stdin.readline():
            return


if __name__ == "__main__":
    hold(int(sys.argv[1]))
