"""The profiler as the hook uses it. Its operators are the steps of optimizers, of 2 ms each, and one that each of them calls, of 1.5 ms."""

import enum
import json
import os

_recording = None


class ProfilerActivity(enum.Enum):
    CPU = 0
    CUDA = 1


def note(name: str) -> None:
    """Records a step of an optimizer of the class `name`, if a recording is in progress."""
    if _recording is not None:
        _recording.names.append(name)


class profile:
    def __init__(self, activities):
        self.activities, self.names = activities, []

    def start(self) -> None:
        global _recording
        if _recording is not None:
            raise RuntimeError("Profiler is already enabled on this thread.")
        _recording = self

    def stop(self) -> None:
        global _recording
        _recording = None

    def export_chrome_trace(self, path: str) -> None:
        events = [span("Trace", "PyTorch Profiler (0)", 0.0, 5000.0 * len(self.names), 0)]
        for number, name in enumerate(self.names):
            begin = 5000.0 * number
            events.append(span("cpu_op", "fake::" + name, begin, 2000.0, 2 * number))
            events.append(span("cpu_op", "fake::add", begin + 100.0, 1500.0, 2 * number + 1))
        with open(path, "w") as file:
            json.dump({"schemaVersion": 1, "traceEvents": events, "traceName": path}, file)


def span(category: str, name: str, ts: float, dur: float, number: int) -> dict:
    return {
        "ph": "X", "cat": category, "name": name, "pid": os.getpid(), "tid": 1, "ts": ts, "dur": dur, "args": {"External id": number}
    }
