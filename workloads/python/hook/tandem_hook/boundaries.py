"""Tells which calls of optimizers end a step, where a step has several.

A GAN has two optimizers; where the optimizer runs in the backward pass there is one for each parameter. Whatever their
order, the first one that was called is called once a step, or nearly so, and steps are counted by it.
"""

import weakref

PATIENCE_CALLS = 128
"""So often another optimizer is called between two calls of the one that counts, before it takes its place. Some GANs train
their discriminator a hundred times for each time of the generator."""


class Boundaries:
    def __init__(self):
        self._counts = None
        """The id of the optimizer that counts. A reference would keep what it holds in memory."""
        self._alive = None
        self._rival = None
        self._rival_calls = 0

    def ends_step(self, optimizer) -> bool:
        if id(optimizer) == self._counts:
            self._rival = None
            return True
        if self._counts is None or self._is_overdue(optimizer):
            self._counts, self._rival = id(optimizer), None
            self._alive = weakref.ref(optimizer, self._forget)
            return True
        return False

    def _is_overdue(self, optimizer) -> bool:
        """Of the others, the first that is called stands for all."""
        if self._rival is None:
            self._rival, self._rival_calls = id(optimizer), 0
        self._rival_calls += id(optimizer) == self._rival
        return self._rival_calls > PATIENCE_CALLS

    def _forget(self, alive) -> None:
        # Its id may be that of another one soon.
        if alive is self._alive:
            self._counts = None
