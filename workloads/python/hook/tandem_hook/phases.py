"""Where the time of a step goes on a CPU, by the host's clock: waits for batches, backward passes and optimizers.

Only the thread counts that ends the step. A part that runs within another, as an optimizer within a backward pass, is taken out
of the other. The rest of a step is the forward pass and all else that the program does.
"""

import functools
import threading
import time

DATA, BACKWARD, OPTIMIZER = range(3)
NAMES = (b"data_ns", b"backward_ns", b"optimizer_ns")


class Times:
    """Those of a thread."""

    __slots__ = ("_known", "_json", "_optimizer", "_began_ns", "_spent_ns", "_sum_ns")

    def __init__(self):
        self._known = []
        """The parts that have happened in this thread, in order."""
        self._json = b"{}"
        """The text of a step with these parts, to be filled with their times."""
        self._optimizer = None
        self.restart(time.monotonic_ns())

    def restart(self, now_ns: int) -> None:
        """Begins a step now."""
        self._began_ns = now_ns
        self._spent_ns = [0] * len(NAMES)
        self._sum_ns = 0

    def begin(self):
        """Begins a part, which ends with `end`."""
        return time.monotonic_ns(), self._sum_ns

    def end(self, part: int, begun) -> None:
        began_ns, before_ns = begun
        # Of a step that has ended within the part, only the time after it counts.
        if began_ns < self._began_ns:
            began_ns, before_ns = self._began_ns, 0
        own_ns = time.monotonic_ns() - began_ns - (self._sum_ns - before_ns)
        self._spent_ns[part] += own_ns
        self._sum_ns += own_ns
        if part not in self._known:
            self._known = sorted([*self._known, part])
            self._json = b"{%b}" % b",".join(b'"%b":%%d' % NAMES[known] for known in self._known)

    def begin_optimizer(self) -> None:
        self._optimizer = self.begin()

    def end_optimizer(self) -> None:
        begun, self._optimizer = self._optimizer, None
        if begun is not None:
            self.end(OPTIMIZER, begun)

    def take(self, begun_ns: int, now_ns: int):
        """Ends a step now, and returns its parts as JSON; None if another thread has ended steps since the last one of this thread.

        A part that has never happened is absent.
        """
        text = self._json % tuple([self._spent_ns[part] for part in self._known]) if self._began_ns == begun_ns else None
        self.restart(now_ns)
        return text


class Threads(threading.local):
    """`times` are those of the present thread. A look at them is slow, so callers keep the object."""

    def __init__(self):
        self.times = Times()


def timed(function, part: int, times):
    """`times` gives those of the present thread."""

    @functools.wraps(function)
    def watched(*arguments, **keywords):
        of_thread = times()
        begun = of_thread.begin()
        try:
            return function(*arguments, **keywords)
        finally:
            of_thread.end(part, begun)

    # As for the functions around optimizers.
    watched._torchdynamo_disable = True
    return watched
