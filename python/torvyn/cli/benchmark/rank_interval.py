"""A confidence interval for the shift between two samples (Hodges-Lehmann, from Mann-Whitney).

It uses only ranks, so one disturbed round changes it little, and it assumes nothing about the
distribution of times.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise, product
from statistics import median
from typing import Final, NamedTuple

_BLOCKS: Final = 10
_ERROR: Final = 0.01
"""The probability that the true shift is above the interval, and likewise below."""


class Interval(NamedTuple):
    lowest: float
    estimate: float
    highest: float


def shift_interval(before: Sequence[float], now: Sequence[float]) -> Interval:
    """How far `now` is above `before`; unbounded if there are too few values.

    Consecutive values are correlated, so each sample is cut into at most ten blocks, and the
    medians of the blocks are compared.
    """
    old, new = _block_medians(before), _block_medians(now)
    shifts = sorted(b - a for a, b in product(old, new))
    skip = _values_outside(len(old), len(new))
    if skip == 0:
        return Interval(-math.inf, median(shifts), math.inf)
    return Interval(shifts[skip - 1], median(shifts), shifts[-skip])


def _block_medians(values: Sequence[float]) -> list[float]:
    blocks = min(_BLOCKS, len(values))
    edges = [len(values) * number // blocks for number in range(blocks + 1)]
    return [median(values[begin:end]) for begin, end in pairwise(edges)]


def _values_outside(first: int, second: int) -> int:
    """The largest k with P(U < k) <= `_ERROR`; U is the Mann-Whitney statistic of equal samples."""
    ways = _rank_sums(first, second)
    limit = _ERROR * math.comb(first + second, first)
    outside, below = 0, 0
    for number in ways:
        below += number
        if below > limit:
            break
        outside += 1
    return outside


def _rank_sums(first: int, second: int) -> list[int]:
    """In how many orders of both samples U is 0, 1, 2 ...: the Gaussian binomial coefficients."""
    ways = [1] + [0] * (first * second)
    for step in range(1, first + 1):
        for u in range(first * second, second + step - 1, -1):
            ways[u] -= ways[u - second - step]
        for u in range(step, first * second + 1):
            ways[u] += ways[u - step]
    return ways
