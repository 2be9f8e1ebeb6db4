"""SIGSTOP stops a process but not its device. Measures how long the device continues with queued work."""

import os
import signal
import time

import nvml
from gemm import Gemm
from probes import NotPossible, tell

SIZE, QUEUE = 8192, 400
"""About half a second of work on a device of a petaflop per second, which fits the driver's queue."""

WINDOW_S, STOPS, LIMIT_S = 0.1, 3, 4.0
SM_UTIL, RESTS_BELOW_PERCENT = 2, 1.0


def probe(device: str, quick: bool) -> None:
    gpu = nvml.Library.open().device(device)
    client = Gemm(device, {}, SIZE, QUEUE)
    times_s = []
    try:
        client.wait_for_first()
        busy = sm_util(gpu)
        for _ in range(STOPS):
            os.kill(client.pid, signal.SIGSTOP)
            try:
                times_s.append(rests_after_s(gpu))
            finally:
                os.kill(client.pid, signal.SIGCONT)
            time.sleep(0.5)
    finally:
        client.end()
    shown = ", ".join("longer" if time_s is None else f"{time_s:.1f} s" for time_s in times_s)
    answer = f"{shown} (windows of {WINDOW_S:g} s; up to {QUEUE} products of {SIZE} queued; SM util before: {busy:.0f} %)"
    tell("from SIGSTOP until the device rests", answer, drain_s=times_s, sm_util_percent_before=busy)


def rests_after_s(gpu: nvml.Device) -> float | None:
    """The time until the end of the first window without work."""
    begin_s = time.monotonic()
    while time.monotonic() - begin_s < LIMIT_S:
        if sm_util(gpu) < RESTS_BELOW_PERCENT:
            return time.monotonic() - begin_s
    return None


def sm_util(gpu: nvml.Device) -> float:
    first = gpu.gpm_sample()
    time.sleep(WINDOW_S)
    value, _, error = gpu.gpm(first, gpu.gpm_sample(), [SM_UTIL])[SM_UTIL]
    if value is None:
        raise NotPossible(f"SM util cannot be read: {error}")
    return value
