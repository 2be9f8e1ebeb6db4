"""Durations and ends of steps, by the host's clock or by that of an asynchronous GPU."""

import time
from collections import deque

NAP_S = 0.0002
"""The interval between two polls of a device that the program waits for."""


class HostClock:
    timing = b"hook"

    def __init__(self, threads):
        """`threads` have the times of the parts of a step."""
        self._threads = threads
        self.restart()

    def is_idle(self) -> bool:
        """The hook does not wait for a device without timing events in PyTorch."""
        return True

    def restart(self) -> None:
        """Begins a step now."""
        self._boundary_ns = time.monotonic_ns()
        self._threads.times.restart(self._boundary_ns)
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
        self._ended += [(index, end_ns, end_ns - begin_ns, None) for index, (begin_ns, end_ns) in spans]
        self._boundary_ns = marks[-1]
        self._threads.times.restart(self._boundary_ns)
        return len(marks) - 1

    def end_step(self, index: int) -> None:
        now_ns, begun_ns = time.monotonic_ns(), self._boundary_ns
        self._ended.append((index, now_ns, now_ns - begun_ns, self._threads.times.take(begun_ns, now_ns)))
        self._boundary_ns = now_ns

    def completed(self) -> list:
        """The steps that ended since the last call: index, end and duration in ns, and the parts as JSON, if they are known."""
        ended, self._ended = self._ended, []
        return ended


class DeviceClock:
    """Records a timing event in the device's stream at every boundary, and reads it when the device has passed it.

    The host never waits for the device to be idle, which would leave it without work at every step. The times of a step
    are known a few steps later. The events come from a pool.
    """

    timing = b"hook-device-event"

    def __init__(self, cuda, device):
        """`cuda` is the module `torch.cuda`."""
        self._cuda, self._device = cuda, device
        self._pool = []
        self._queue = deque()
        """Boundaries that the device may not have passed: the event, its recording time, and the step that ends there, if any."""
        self.restart()

    def is_idle(self) -> bool:
        """Whether the device has completed all work up to the last boundary."""
        return not self._queue and self._boundary.query()

    def restart(self) -> None:
        """Begins a step now. Boundaries before it are forgotten. A device that is idle passes the event at once."""
        self._queue.clear()
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
            # Durations are measured from step to step, because differences between distant events lose digits. The
            # device's clock runs slightly faster or slower than the host's, so the sum is limited by what the host knows: the
            # time of the recording or of the last poll before the event, and the time of the poll after it.
            earliest_ns, latest_ns = max(put_ns, self._not_done_ns), time.monotonic_ns()
            self._end_ns = min(max(self._end_ns + dur_ns, earliest_ns), latest_ns)
            self._pool.append(self._boundary)
            self._boundary = event
            self._queue.popleft()
            if index is not None:
                yield index, self._end_ns, dur_ns, None

    def _put(self):
        event = self._pool.pop() if self._pool else self._cuda.Event(enable_timing=True)
        event.record(self._cuda.current_stream(self._device))
        return event
