"""Which batches have come, so that none comes twice.

A batch is published again when its confirmation was lost, or when its writer has died. The broker
recognizes it within the `duplicate_window`, and the reader always: it keeps the numbers that it has
seen as ranges, which are few because the numbers of a series have no gaps.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from typing import Any, Final

from torvyn.reactor.carriers.nats.batch_ids import BatchId

SERIES_KEPT: Final = 4
"""How many series of one writer are remembered. A new one begins when a writer has died."""


class SeenBatches:
    def __init__(self) -> None:
        self.knows_start = True
        """Whether the first numbers of a series are missed; not by a reader that was told to forget
        what it has read."""
        self._series: dict[str, dict[str, list[list[int]]]] = {}
        """By writer and partition, and by series: first and last numbers, in order."""

    def add(self, batch: BatchId) -> bool:
        """Notes a batch; False if it has come before."""
        return _add_range(self._ranges(batch), batch.first, batch.first + batch.elements - 1)

    def _ranges(self, batch: BatchId) -> list[list[int]]:
        known = self._series.setdefault(f"{batch.writer}.{batch.partition}", {})
        # The series that was heard of last is the last one.
        ranges = known[batch.series] = known.pop(batch.series, [])
        if len(known) > SERIES_KEPT:
            del known[next(iter(known))]
        return ranges

    def add_end(self, batch: BatchId) -> None:
        """The writer has ended: all numbers before that of its end were sent."""
        if batch.first:
            ranges = self._ranges(batch)
            if not ranges or batch.first > ranges[-1][1] + 1:
                ranges.append([batch.first, batch.first - 1])

    def missing(self, series: str = "", first: Mapping[int, int] | None = None) -> int:
        """How many numbers have not come although later ones have. With `series`: of this series
        only, from the number `first` of each partition on. From any thread."""
        count = 0
        for writer, known in list(self._series.items()):
            start = 0 if first is None else first.get(int(writer.partition(".")[2]), 0)
            for name, ranges in list(known.items()):
                if not series or name == series:
                    begin = 0 if self.knows_start or not ranges else ranges[0][0]
                    count += _gaps(list(ranges), max(start, begin))
        return count

    def to_json(self) -> dict[str, Any]:
        return {"series": self._series}

    @classmethod
    def from_json(cls, saved: dict[str, Any] | None) -> SeenBatches:
        seen = cls()
        if saved is not None:
            seen._series = {
                writer: {name: [list(each) for each in ranges] for name, ranges in known.items()}
                for writer, known in saved["series"].items()
            }
        return seen


def _gaps(ranges: list[list[int]], start: int) -> int:
    """How many numbers from `start` on are between the ranges."""
    following = start
    count = 0
    for first, last in ranges:
        count += max(first - following, 0)
        following = max(following, last + 1)
    return count


def _add_range(ranges: list[list[int]], first: int, last: int) -> bool:
    """Adds a range that is new as a whole, or not at all."""
    if not ranges or first > ranges[-1][1] + 1:
        ranges.append([first, last])
        return True
    if first == ranges[-1][1] + 1:
        ranges[-1][1] = last
        return True
    at = bisect_right(ranges, first, key=lambda each: each[0])
    if at and first <= ranges[at - 1][1]:
        return False
    ranges.insert(at, [first, last])
    _merge(ranges, at)
    return True


def _merge(ranges: list[list[int]], at: int) -> None:
    """Joins a range with its neighbours, if they touch."""
    if at + 1 < len(ranges) and ranges[at][1] + 1 == ranges[at + 1][0]:
        ranges[at][1] = ranges.pop(at + 1)[1]
    if at and ranges[at - 1][1] + 1 == ranges[at][0]:
        ranges[at - 1][1] = ranges.pop(at)[1]
