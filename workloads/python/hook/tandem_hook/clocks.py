"""The lengths and ends of steps: by the host's clock, or by that of a GPU that works on its own."""

import time
from collections import deque

NAP_S = 0.0002
"""Between two looks at a device that somebody waits for."""


class HostClock:
    timing = b"hook"

    def __init__(self):
        self.restart()

    def is_idle(self) -> bool:
        """A device that PyTorch has no timing events for is not waited for."""
        return True

    def restart(self) -> None:
        """A step begins now."""
        self._boundary_ns = time.monotonic_ns()
        self._ended = []

    def end_step(self) -> None:
        now_ns = time.monotonic_ns()
        self._ended.append((now_ns, now_ns - self._boundary_ns))
        self._boundary_ns = now_ns

    def completed(self) -> list:
        """Steps that ended since the last call: when, and how long they took, in ns."""
        ended, self._ended = self._ended, []
        return ended


class DeviceClock:
    """Puts a timing event into the device's stream at every boundary, and looks at it when the device has come by.

    The host never waits for the device to be idle, which would leave it without work at every step. It learns of a step's
    times a few steps later, and takes the events from a pool.
    """

    timing = b"hook-device-event"

    def __init__(self, cuda, device):
        """`cuda` is the module `torch.cuda`."""
        self._cuda, self._device = cuda, device
        self._pool = []
        self._queue = deque()
        """Steps that the device may be working on, each as its last event and when that was put."""
        self.restart()

    def is_idle(self) -> bool:
        """Whether it has done all that was issued up to the last boundary."""
        return not self._queue and self._boundary.query()

    def restart(self) -> None:
        """A step begins now. The device is idle and comes by at once."""
        self._end_ns = self._not_done_ns = time.monotonic_ns()
        self._boundary = self._put()

    def end_step(self) -> None:
        put_ns = time.monotonic_ns()
        self._queue.append((self._put(), put_ns))

    def completed(self):
        while self._queue:
            event, put_ns = self._queue[0]
            asked_ns = time.monotonic_ns()
            if not event.query():
                self._not_done_ns = asked_ns
                return
            dur_ns = int(self._boundary.elapsed_time(event) * 1e6)
            # The device's clock counts from step to step, as differences of far events lose digits. It runs a little faster
            # or slower than the host's, so the sum is held between what the host knows: when it put the event or last asked
            # in vain, and when it saw that the device had come by.
            earliest_ns, latest_ns = max(put_ns, self._not_done_ns), time.monotonic_ns()
            self._end_ns = min(max(self._end_ns + dur_ns, earliest_ns), latest_ns)
            self._pool.append(self._boundary)
            self._boundary = event
            self._queue.popleft()
            yield self._end_ns, dur_ns

    def _put(self):
        event = self._pool.pop() if self._pool else self._cuda.Event(enable_timing=True)
        event.record(self._cuda.current_stream(self._device))
        return event
