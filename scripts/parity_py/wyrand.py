"""The random numbers of the Rust crate fastrand 2, so that both sides of a comparison draw the same ones.

The generator is wyrand (wangyi-fudan/wyhash): its state grows by a constant, so any number of draws can be made at once.
"""

import numpy as np

INCREMENT = 0x2D358DCCAA6C78A5
MIX = 0x8BB84B93962EACC9
BITS = 2**64
LOW = np.uint64(0xFFFFFFFF)
HALF = np.uint64(32)


class Rng:
    def __init__(self, seed: int):
        self.state = seed % BITS

    def u64(self) -> int:
        """The next draw of 64 bits."""
        self.state = (self.state + INCREMENT) % BITS
        product = self.state * (self.state ^ MIX)
        return product % BITS ^ product >> 64

    def f64(self) -> float:
        """From 0 to below 1."""
        return (self.u64() >> 1) * 2.0**-63

    def f32(self) -> float:
        """From 0 to below 1, with the digits of fp32."""
        return float(np.float32(self.f64()))

    def integers(self, count: int) -> np.ndarray:
        """The next draws of 64 bits, `[count]`."""
        steps = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(INCREMENT)
        states = np.uint64(self.state) + steps
        self.state = (self.state + count * INCREMENT) % BITS
        mixed = states ^ np.uint64(MIX)
        return states * mixed ^ high(states, mixed)

    def shuffle(self, order: np.ndarray) -> None:
        bounds = np.arange(2, len(order) + 1, dtype=np.uint64)
        swaps = below(self.integers(len(order) - 1), bounds).tolist()
        items = order.tolist()
        for index, other in enumerate(swaps, start=1):
            items[index], items[other] = items[other], items[index]
        order[:] = items


def fresh_seed(seed: int, steps: int, rank: int) -> int:
    """The seed of what a data-parallel rank draws in training, from the launch's seed and the number of steps before.

    It has the bits of the one in workloads/torch/src/checkpoint/restore.rs, which is signed.
    """
    rng = Rng(seed)
    for number in (steps, rank):
        rng = Rng(rng.u64() ^ number)
    return rng.u64()


def training_seed(seed: int, data_rank: int) -> int:
    """The seed of torch's generator before the first step, for a launch with this seed."""
    return fresh_seed(seed, 0, data_rank)


def high(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The upper halves of products of 128 bits (Warren, Hacker's Delight, section 8-2)."""
    left_high, left_low, right_high, right_low = left >> HALF, left & LOW, right >> HALF, right & LOW
    middle = left_high * right_low + (left_low * right_low >> HALF)
    return left_high * right_high + (middle >> HALF) + ((middle & LOW) + left_low * right_high >> HALF)


def below(draws: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """Numbers from 0 to below `bounds` (Lemire, 2019). The draws that it would have to throw away are one in 2^50."""
    return high(draws, bounds).astype(np.int64)


def units(draws: np.ndarray) -> np.ndarray:
    """Numbers from 0 to below 1."""
    return (draws >> np.uint64(1)).astype(np.float64) * 2.0**-63


def normals(radii: np.ndarray, turns: np.ndarray) -> np.ndarray:
    """Standard normal ones from pairs of numbers from 0 to below 1 (Box and Muller, 1958)."""
    return np.sqrt(-2.0 * np.log(1.0 - radii)) * np.cos(2.0 * np.pi * turns)
