"""Tells the outermost call of an optimizer's `step` from those that it makes in turn.

A subclass that calls `super().step()` is seen twice, and an optimizer that calls others once for each. They are counted as
they begin and end, in each thread by itself. An exception in `step` leaves one open for ever, so the count alone is not
believed: where it says that a call lies within another, the other one's wrapper must stand on the stack.
"""

import threading


class Calls(threading.local):
    depth = 0
    begun = 0
    """Calls so far, including inner ones."""

    def begin(self) -> None:
        self.depth += 1
        self.begun += 1

    def end(self, wrapper) -> bool:
        """Returns whether the ending call is an outermost one; `wrapper` is the frame of PyTorch's wrapper around it."""
        self.depth -= 1
        if self.depth > 0 and lies_within_another(wrapper):
            return False
        self.depth = 0
        return True


def lies_within_another(wrapper) -> bool:
    """All wrappers are closures of one function and share their code."""
    frame = wrapper.f_back
    while frame is not None:
        if frame.f_code is wrapper.f_code:
            return True
        frame = frame.f_back
    return False
