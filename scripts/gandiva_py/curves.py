"""Loss curves of simulated trainings: the loss after k steps is 1 / (B0 k + B1) + B2."""

from typing import NamedTuple


class Curve(NamedTuple):
    b0: float
    b1: float
    b2: float

    def at(self, steps: float) -> float:
        return 1 / (self.b0 * steps + self.b1) + self.b2

    def steps_to(self, loss: float) -> float:
        """The steps after which it has this loss."""
        return (1 / (loss - self.b2) - self.b1) / self.b0

    def __str__(self) -> str:
        # Without an exponent, and with more digits than any report of a mean loss has.
        return "/".join(f"{number:.12f}" for number in self)


def ending(first: float, final: float, left: float, steps: int) -> Curve:
    """A curve from `first` to `final` after `steps`, where the part `left` of its fall to its limit is left."""
    b2 = (final - left * first) / (1 - left)
    assert b2 >= 0, (first, final, left)
    b1 = 1 / (first - b2)
    return Curve(b1 / steps * (1 / left - 1), b1, b2)


def reaching(first: float, target: float, at: float, left: float, steps: int) -> Curve:
    """A curve from `first` that reaches `target` after the part `at` of `steps`, with the part `left` of its fall left after all steps."""
    rate = 1 / left - 1
    part = 1 / (1 + at * rate)
    b2 = (target - part * first) / (1 - part)
    assert b2 >= 0, (first, target, at, left)
    b1 = 1 / (first - b2)
    return Curve(b1 / steps * rate, b1, b2)


def through(first: float, target: float, at: float, final: float, steps: int) -> Curve:
    """A curve from `first` that reaches `target` after the part `at` of `steps`, and ends at `final`."""

    def part(b2: float) -> float:
        inverse = lambda loss: 1 / (loss - b2)
        return (inverse(target) - inverse(first)) / (inverse(final) - inverse(first))

    low, high = 0.0, final
    assert final < target < first and part(low) >= at > 0, (first, target, at, final)
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if middle < final and part(middle) > at else (low, middle)
    b1 = 1 / (first - low)
    return Curve((1 / (final - low) - b1) / steps, b1, low)
