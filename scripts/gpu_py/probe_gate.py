"""Measures how fast a hook on PyTorch's optimizer steps pauses a job at the boundary of a step and resumes it.

The hook reads one word of a page that it shares with the process that pauses the job, and sleeps on it while it is set.
"""

import ctypes
import mmap
import os
import select
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from gemm import visible
from probes import NotPossible, ask, tell
from small_training import Training

SYS_FUTEX, FUTEX_WAIT, FUTEX_WAKE = 202, 0, 1
"""The system call's number on x86-64."""

OPEN, PAUSED = 0, 1
READY_AT, PAUSED_AT, RESUMED_AT = 1, 2, 3
PAUSES = 8


def probe(device: str, quick: bool) -> bool:
    lengths_ms = (1,) if quick else (1, 50)
    return all([ask(question(step_ms), pausing, device, step_ms, quick) for step_ms in lengths_ms])


def question(step_ms: int) -> str:
    return f"pausing at a boundary of steps of about {step_ms} ms"


class Gate:
    """A shared page of two processes: a word that requests a pause, and the times at which its reader paused and resumed."""

    SIZE = 4096

    def __init__(self, path: str):
        with open(path, "r+b") as file:
            self.page = mmap.mmap(file.fileno(), self.SIZE)
        self._word = ctypes.c_uint32.from_buffer(self.page)
        self._futex = ctypes.CDLL(None, use_errno=True).syscall

    @property
    def state(self) -> int:
        return self._word.value

    def set(self, state: int) -> None:
        self._word.value = state
        self._futex(SYS_FUTEX, ctypes.byref(self._word), FUTEX_WAKE, 1, None, None, 0)

    def sleep_while_paused(self) -> None:
        while self._word.value == PAUSED:
            self._futex(SYS_FUTEX, ctypes.byref(self._word), FUTEX_WAIT, PAUSED, None, None, 0)

    def stamp(self, place: int) -> None:
        struct.pack_into("=Q", self.page, 8 * place, time.monotonic_ns())

    def stamped_ns(self, place: int) -> int:
        return struct.unpack_from("=Q", self.page, 8 * place)[0]


def pausing(device: str, step_ms: int, quick: bool) -> None:
    with tempfile.NamedTemporaryFile(prefix="gate-") as file:
        file.truncate(Gate.SIZE)
        gate = Gate(file.name)
        command = [sys.executable, str(Path(__file__).resolve()), device, str(step_ms), file.name]
        child = subprocess.Popen(command, env={**os.environ, **visible(device)}, stdin=subprocess.PIPE)
        try:
            stamped_after(gate, READY_AT, 0, child)
            pauses_ns, resumes_ns = [], []
            for _ in range(3 if quick else PAUSES):
                time.sleep(0.05 + 2e-3 * step_ms)
                asked_ns = time.monotonic_ns()
                gate.set(PAUSED)
                pauses_ns.append(stamped_after(gate, PAUSED_AT, asked_ns, child) - asked_ns)
                time.sleep(0.05)
                asked_ns = time.monotonic_ns()
                gate.set(OPEN)
                resumes_ns.append(stamped_after(gate, RESUMED_AT, asked_ns, child) - asked_ns)
        finally:
            gate.set(OPEN)
            child.stdin.close()
            try:
                child.wait(10)
            except subprocess.TimeoutExpired:
                child.terminate()
                child.wait()
    pause_us, resume_us = (statistics.median(times) / 1e3 for times in (pauses_ns, resumes_ns))
    tell(
        question(step_ms),
        f"{len(pauses_ns)} pauses: at rest {pause_us / 1e3:.2f} ms after it was asked, awake {resume_us:.0f} us after",
        pause_us_median=pause_us,
        pause_us_max=max(pauses_ns) / 1e3,
        resume_us_median=resume_us,
        resume_us_max=max(resumes_ns) / 1e3,
    )


def stamped_after(gate: Gate, place: int, moment_ns: int, child: subprocess.Popen) -> int:
    until_s = time.monotonic() + 25
    while (stamped := gate.stamped_ns(place)) <= moment_ns:
        if child.poll() is not None or time.monotonic() > until_s:
            raise NotPossible("the training process ended or does not answer")
        time.sleep(2e-4)
    return stamped


def gated(device: str, step_ms: int, path: str) -> None:
    """The child: trains until its input ends. While the gate is shut, it rests at a boundary with an idle device."""
    from torch.optim.optimizer import register_optimizer_step_post_hook

    gate = Gate(path)
    training = Training(device, step_ms)

    def hook(optimizer, arguments, keywords) -> None:
        if gate.state == PAUSED:
            training.wait()
            gate.stamp(PAUSED_AT)
            gate.sleep_while_paused()
            gate.stamp(RESUMED_AT)

    register_optimizer_step_post_hook(hook)
    gate.stamp(READY_AT)
    while not select.select([sys.stdin], [], [], 0)[0]:
        training.step()


if __name__ == "__main__":
    device, step_ms, path = sys.argv[1:]
    gated(device, int(step_ms), path)
