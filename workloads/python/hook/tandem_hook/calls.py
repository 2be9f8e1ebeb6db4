"""Tells the outermost call of an optimizer's `step` from inner calls.

A subclass that calls `super().step()` is called twice, and an optimizer that calls others once for each. Calls are counted
as they begin and end, separately in each thread. An exception in `step` leaves a call open for ever, so the count
is only a hint: for an inner call, the wrapper of another call must also be on the stack.
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
