"""The rows that a reader has been supplied with, and how far their elements are settled.

With `live-first`, rows are settled in another order than they were stored in. Runs of settled
elements arrive in the order of delivery, and each of them concerns a few neighbouring rows.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable


class SuppliedRows:
    def __init__(self) -> None:
        self._starts: list[int] = []
        """The first supplied element of each row, in order."""
        self._rows: dict[int, tuple[int, int]] = {}
        """By that element: the first element of the row, and the last one."""
        self._left: dict[int, int] = {}
        """By that element: how many elements are not settled."""

    def add(self, row: int, start: int, count: int) -> None:
        insort(self._starts, start)
        self._rows[start] = (row, start + count - 1)
        self._left[start] = count

    def done_after(self, runs: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
        """The rows that these runs would complete, as ranges of elements without a gap."""
        left = self._left_after(runs)
        done = sorted(self._rows[start] for start, count in left.items() if count == 0)
        ranges: list[tuple[int, int]] = []
        for first, last in done:
            follows = bool(ranges) and ranges[-1][1] + 1 == first
            ranges.append((ranges.pop()[0] if follows else first, last))
        return ranges

    def settle(self, runs: Iterable[tuple[int, int]]) -> list[int]:
        """Counts the runs as settled; returns the rows that are complete now."""
        done = []
        for start, count in self._left_after(runs).items():
            self._left[start] = count
            if count == 0:
                done.append(self._rows.pop(start)[0])
                del self._left[start]
                del self._starts[bisect_right(self._starts, start) - 1]
        return done

    def _left_after(self, runs: Iterable[tuple[int, int]]) -> dict[int, int]:
        """What would be left of each row that the runs concern."""
        left: dict[int, int] = {}
        for first, last in runs:
            at = max(bisect_right(self._starts, first) - 1, 0)
            while at < len(self._starts) and (start := self._starts[at]) <= last:
                both = min(last, self._rows[start][1]) - max(first, start) + 1
                if both > 0:
                    left[start] = left.get(start, self._left[start]) - both
                at += 1
        return left
