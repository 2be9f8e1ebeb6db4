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
        self._marks = []

    def mark(self) -> None:
        """A step may end now, or begin."""
        self._marks.append(time.monotonic_ns())

    def drop_marks(self) -> None:
        self._marks.clear()

    def adopt_marks(self, index: int) -> int:
        """Step `index` began at the first mark, and one ended at each of the others; returns how many."""
        marks, self._marks = self._marks, []
        spans = enumerate(zip(marks, marks[1:]), index)
        self._ended += [(index, end_ns, end_ns - begin_ns) for index, (begin_ns, end_ns) in spans]
        self._boundary_ns = marks[-1]
        return len(marks) - 1

    def end_step(self, index: int) -> None:
        now_ns = time.monotonic_ns()
        self._ended.append((index, now_ns, now_ns - self._boundary_ns))
        self._boundary_ns = now_ns

    def completed(self) -> list:
        """Steps that ended since the last call: which, when, and how long they took, in ns."""
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
        """Boundaries that the device may not have come to: the event, when that was put, and which step ends there, if one does."""
        self.restart()

    def is_idle(self) -> bool:
        """Whether it has done all that was issued up to the last boundary."""
        return not self._queue and self._boundary.query()

    def restart(self) -> None:
        """A step begins now. The device is idle and comes by at once."""
        self._end_ns = self._not_done_ns = time.monotonic_ns()
        self._boundary = self._put()
        self._marks = []

    def mark(self) -> None:
        """A step may end now, or begin."""
        put_ns = time.monotonic_ns()
        self._marks.append((self._put(), put_ns))

    def drop_marks(self) -> None:
        self._pool.extend(event for event, _ in self._marks)
        self._marks.clear()

    def adopt_marks(self, index: int) -> int:
        """Step `index` began at the first mark, and one ended at each of the others; returns how many."""
        marks, self._marks = self._marks, []
        steps = [None, *range(index, index + len(marks) - 1)]
        self._queue.extend((event, put_ns, step) for step, (event, put_ns) in zip(steps, marks))
        return len(marks) - 1

    def end_step(self, index: int) -> None:
        put_ns = time.monotonic_ns()
        self._queue.append((self._put(), put_ns, index))

    def completed(self):
        while self._queue:
            event, put_ns, index = self._queue[0]
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
            if index is not None:
                yield index, self._end_ns, dur_ns

    def _put(self):
        event = self._pool.pop() if self._pool else self._cuda.Event(enable_timing=True)
        event.record(self._cuda.current_stream(self._device))
        return event
