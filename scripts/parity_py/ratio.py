"""The ratio of two step times over blocks, with a 95 % interval."""

import math
from typing import NamedTuple


class Ratio(NamedTuple):
    estimate: float
    ci_lo: float | None
    """Absent with one block."""
    ci_hi: float | None


def ratio_over_blocks(blocks: list[tuple[list[float], list[float]]]) -> Ratio:
    """The geometric mean over blocks of (numerators over denominators), each block being one observation.

    Ratios are compared on the log scale, where twice as fast and twice as slow are equally far from equal. Launches of
    one block share slow drifts of the machine, so blocks are taken as independent, and launches are not.
    """
    logs = [_mean(map(math.log, above)) - _mean(map(math.log, below)) for above, below in blocks]
    center = _mean(logs)
    if len(logs) < 2:
        return Ratio(math.exp(center), None, None)
    variance = sum((value - center) ** 2 for value in logs) / (len(logs) - 1)
    half_width = t_quantile_975(len(logs) - 1) * math.sqrt(variance / len(logs))
    return Ratio(math.exp(center), math.exp(center - half_width), math.exp(center + half_width))


def t_quantile_975(degrees: int) -> float:
    """The 97.5 % quantile of Student's t, by bisection on the integral of its density."""
    scale = math.exp(math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2)) / math.sqrt(degrees * math.pi)

    def integral_from_0(to: float) -> float:
        # Simpson's rule; the density is smooth, so 2000 pieces of at most 0.01 leave no error that could be seen.
        pieces = 2000
        width = to / pieces
        weights = [1] + [4, 2] * (pieces // 2 - 1) + [4, 1]
        points = (index * width for index in range(pieces + 1))
        return width / 3 * sum(w * scale * (1 + x * x / degrees) ** (-(degrees + 1) / 2) for w, x in zip(weights, points))

    low, high = 0.0, 20.0
    while high - low > 1e-6:
        middle = (low + high) / 2
        low, high = (middle, high) if integral_from_0(middle) < 0.475 else (low, middle)
    return (low + high) / 2


def _mean(values) -> float:
    values = list(values)
    return sum(values) / len(values)
