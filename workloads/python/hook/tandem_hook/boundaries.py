"""Decides which calls of optimizers end a step in a program with several optimizers.

A GAN has two optimizers, and a program that runs the optimizer in the backward pass has one for each parameter. In any
order, the optimizer that was called first is called about once per step, so it counts the steps. Successive trainings
have an optimizer each, and the first may stay alive: another one takes over as soon as the first is no longer called.
"""

import functools
import weakref

NOTHING, STEP, BEGIN, MARK, ADOPT = range(5)
"""The meaning of a call: nothing; the end of a step; the begin of the next step, after the end of `calls` steps whose
beginning is unknown; the possible end of a step, if its optimizer turns out to count the steps; and the confirmation of
that, also for the marked calls before it."""

KNOWN_CALLS = 4
"""After this number of calls of the counting optimizer, the calls of others in between are representative."""

PATIENCE_CALLS = 128
"""Until then, another optimizer takes over after this number of calls. Some GANs train their discriminator a hundred
times for each training of the generator."""


class Boundaries:
    def __init__(self):
        self._counts = None
        """The id of the counting optimizer. A reference would keep its state in memory."""
        self._alive = None
        self.calls = 0
        """Calls of the counting optimizer so far."""
        self._most = 0
        """The largest number of calls of another optimizer between two of these."""
        self.alternate = False
        """Whether a counting optimizer was called again after others, or one of the others after further steps."""
        self.uncounted = 0
        """Calls of others that are no steps so far."""
        self._taken = 0
        """Calls of counting optimizers so far. In meta-learning each task has a new one, and the outer optimizer is another."""
        self._beside = {}
        """The other optimizers by their ids: each with the number of these calls at its last one."""
        self._others = {}
        """Calls of each other optimizer since the last call of the counting one."""
        self._marked = None
        """The other optimizer whose calls are marked."""

    def of(self, optimizer) -> int:
        caller = id(optimizer)
        if caller == self._counts:
            self.calls += 1
            self._taken += 1
            if self._others:
                self._most = max(self._most, *self._others.values())
                self._others.clear()
                self._marked = None
                self.alternate = True
            return STEP
        if self._counts is None:
            # The time before a training is no step.
            self._take(optimizer, 1)
            return BEGIN
        self._note_beside(caller, optimizer)
        calls = self._others[caller] = self._others.get(caller, 0) + 1
        if calls > self._patience():
            was_marked = caller == self._marked
            self.uncounted -= calls
            self._take(optimizer, calls)
            return ADOPT if was_marked else BEGIN
        if self._is_alone() and self._marked in (None, caller):
            self._marked = caller
            return MARK
        return NOTHING

    def _is_alone(self) -> bool:
        """Whether the counting optimizer is known to be the only one of its training."""
        return self.calls >= KNOWN_CALLS and self._most == 0

    def _patience(self) -> int:
        return 2 * self._most + KNOWN_CALLS if self.calls >= KNOWN_CALLS else PATIENCE_CALLS

    def _note_beside(self, caller: int, optimizer) -> None:
        self.uncounted += 1
        known = self._beside.get(caller)
        if known is None:
            forget = functools.partial(self._forget_beside, caller)
            self._beside[caller] = [self._taken, weakref.ref(optimizer, forget)]
        elif known[0] != self._taken:
            known[0] = self._taken
            self.alternate = True

    def _forget_beside(self, caller: int, alive) -> None:
        self._beside.pop(caller, None)

    def _take(self, optimizer, calls: int) -> None:
        self._taken += 1
        self._beside.pop(id(optimizer), None)
        self._counts, self.calls, self._most = id(optimizer), calls, 0
        self._alive = weakref.ref(optimizer, self._forget)
        self._others.clear()
        self._marked = None

    def _forget(self, alive) -> None:
        # Python may soon reuse the id for another object.
        if alive is self._alive:
            self._counts = None
