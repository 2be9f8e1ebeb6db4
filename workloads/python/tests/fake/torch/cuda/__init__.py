"""An asynchronous device with one stream, simulated by the host's clock: `work` adds work to it."""

import time

from torch.cuda import graphs

capturing = False
breaks_after = None
"""The number of event queries before the device fails."""

_idle_at_s = 0.0


def work(seconds: float) -> None:
    global _idle_at_s
    _idle_at_s = max(time.monotonic(), _idle_at_s) + seconds


def current_stream(device):
    return device


def is_current_stream_capturing() -> bool:
    return capturing


def memory_stats(device) -> dict:
    return {
        "allocated_bytes.all.current": 10,
        "allocated_bytes.all.peak": 30,
        "reserved_bytes.all.current": 40,
        "num_alloc_retries": 0,
    }


class Event:
    made = 0

    def __init__(self, enable_timing: bool):
        assert enable_timing
        Event.made += 1

    def record(self, stream) -> None:
        assert stream == "cuda:0"
        self._at_s = max(time.monotonic(), _idle_at_s)

    def query(self) -> bool:
        global breaks_after
        if breaks_after is not None:
            breaks_after -= 1
            if breaks_after < 0:
                raise RuntimeError("CUDA error: an illegal memory access was encountered")
        return time.monotonic() >= self._at_s

    def elapsed_time(self, later: "Event") -> float:
        return (later._at_s - self._at_s) * 1e3
