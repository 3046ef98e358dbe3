"""A set of sequence numbers that is mostly runs: which ones were supplied, out of order."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator


class NumberRanges:
    def __init__(self) -> None:
        self._ranges: list[tuple[int, int]] = []
        """First and last numbers, in order; neighbours are joined."""

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(self._ranges)

    def __bool__(self) -> bool:
        return bool(self._ranges)

    def add(self, first: int, last: int) -> None:
        start = self._at(first - 1)
        end = start
        while end < len(self._ranges) and self._ranges[end][0] <= last + 1:
            first, last = min(first, self._ranges[end][0]), max(last, self._ranges[end][1])
            end += 1
        self._ranges[start:end] = [(first, last)]

    def remove(self, first: int, last: int) -> None:
        start = self._at(first)
        end, rest = start, []
        while end < len(self._ranges) and self._ranges[end][0] <= last:
            low, high = self._ranges[end]
            rest += [(low, first - 1)] if low < first else []
            rest += [(last + 1, high)] if high > last else []
            end += 1
        self._ranges[start:end] = rest

    def missing(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        """The parts of a range that are not in the set."""
        for low, high in self._ranges[self._at(first) :]:
            if low > last:
                break
            if low > first:
                yield first, low - 1
            first = high + 1
        if first <= last:
            yield first, last

    def common(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        """The parts of a range that are in the set."""
        for low, high in self._ranges[self._at(first) :]:
            if low > last:
                break
            yield max(low, first), min(high, last)

    def count(self, first: int, last: int) -> int:
        """How many numbers of a range are in the set."""
        gaps = sum(high - low + 1 for low, high in self.missing(first, last))
        return max(last - first + 1, 0) - gaps

    def _at(self, number: int) -> int:
        """The first range that ends at a number or behind it."""
        at = bisect_right(self._ranges, (number, -1))
        return at - 1 if at and self._ranges[at - 1][1] >= number else at
