"""An asynchronous device with one stream, simulated by the host's clock: `work` adds work to it.

Between `pause` and `go_on` the device does nothing, so that the times of its work do not depend on when the host adds it.
"""

import os
import time

from torch.cuda import graphs

capturing = False
breaks_after = None
"""The number of event queries before the device fails."""

_idle_at_s = 0.0
"""The time on the device's clock at which all queued work ends. The clock stops during a pause."""
_paused_at_s = None
_behind_s = 0.0
"""The host's clock minus the device's clock: the total length of all pauses, in seconds."""


def now_s() -> float:
    """The time on the device's clock."""
    if _paused_at_s is not None:
        return _paused_at_s
    return time.monotonic() - _behind_s


def pause() -> None:
    global _paused_at_s
    _paused_at_s = now_s()


def go_on() -> None:
    global _paused_at_s, _behind_s
    _behind_s = time.monotonic() - _paused_at_s
    _paused_at_s = None


def work(seconds: float) -> None:
    global _idle_at_s
    _idle_at_s = max(now_s(), _idle_at_s) + seconds


def synchronize() -> None:
    while now_s() < _idle_at_s:
        os.sched_yield()


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
        self._at_s = max(now_s(), _idle_at_s)

    def query(self) -> bool:
        global breaks_after
        if breaks_after is not None:
            breaks_after -= 1
            if breaks_after < 0:
                raise RuntimeError("CUDA error: an illegal memory access was encountered")
        return now_s() >= self._at_s

    def elapsed_time(self, later: "Event") -> float:
        return (later._at_s - self._at_s) * 1e3
