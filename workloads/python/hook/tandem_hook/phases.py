"""Where the time of a step goes on a CPU, by the host's clock: waits for batches, backward passes and optimizers.

Only the thread counts that ends the step. A part that runs within another, as an optimizer within a backward pass, is taken out
of the other. The rest of a step is the forward pass and all else that the program does.
"""

import functools
import threading
import time

DATA, BACKWARD, OPTIMIZER = range(3)
NAMES = (b"data_ns", b"backward_ns", b"optimizer_ns")


class Times(threading.local):
    def __init__(self):
        self._known = [False] * len(NAMES)
        """The parts that have happened in this thread."""
        self._optimizer = None
        self.restart()

    def restart(self) -> None:
        """Begins a step now."""
        self._began_ns = time.monotonic_ns()
        self._spent_ns = [0] * len(NAMES)

    def begin(self):
        """Begins a part, which ends with `end`."""
        return time.monotonic_ns(), sum(self._spent_ns)

    def end(self, part: int, begun) -> None:
        began_ns, within_ns = begun
        # A step that has ended within the part has its share of it.
        if began_ns < self._began_ns:
            began_ns, within_ns = self._began_ns, 0
        others_ns = sum(self._spent_ns) - within_ns
        self._spent_ns[part] += time.monotonic_ns() - began_ns - others_ns
        self._known[part] = True

    def begin_optimizer(self) -> None:
        self._optimizer = self.begin()

    def end_optimizer(self) -> None:
        begun, self._optimizer = self._optimizer, None
        if begun is not None:
            self.end(OPTIMIZER, begun)

    def take(self) -> bytes:
        """Ends a step, and returns its parts as JSON. A part that has never happened is absent."""
        parts = zip(NAMES, self._spent_ns, self._known)
        text = b",".join(b'"%b":%d' % (name, spent_ns) for name, spent_ns, is_known in parts if is_known)
        self.restart()
        return b"{%b}" % text


def timed(function, part: int, times):
    """`times` gives those of the process, which a forked child makes anew."""

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
