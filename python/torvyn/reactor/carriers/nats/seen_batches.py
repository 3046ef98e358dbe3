"""Which batches have come, so that none comes twice.

A batch is published again when its confirmation was lost, or when its writer has died. The broker
recognizes it within the `duplicate_window`, and the reader always: it keeps the numbers that it has
seen as ranges, which are few because the numbers of a series have no gaps.

A number that is missing has expired on the broker. Of a series of which nothing has come only its
writer knows how many numbers it had: `note_sent` is told.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from typing import Any, Final

from torvyn.reactor.carriers.nats.batch_ids import BatchId

SERIES_KEPT: Final = 4
"""How many series of one writer are remembered. A new one begins when a writer has died."""


def start_of(series: str) -> int:
    """Which start of a segment has begun the series; 0 if it is continued by later starts."""
    return int(series[1:]) if series.startswith("g") and series[1:].isdecimal() else 0


class SeenBatches:
    def __init__(self) -> None:
        self.knows_start = True
        """Whether the first numbers of a series are missed; not by a reader that was told to forget
        what it has read."""
        self._series: dict[str, dict[str, list[list[int]]]] = {}
        """By writer and partition, and by series: first and last numbers, in order."""
        self._forgotten = 0
        """The missing numbers of series that are not remembered."""
        self._known_starts: dict[str, int] = {}
        """By writer and partition, or by writer: the last start of which the missing numbers are
        known, or do not matter."""
        self._last_starts: dict[int, int] = {}
        """By writer: the last start of which something has come."""

    def add(self, batch: BatchId) -> bool:
        """Notes a batch; False if it has come before."""
        return _add_range(self._ranges(batch), batch.first, batch.first + batch.elements - 1)

    def _ranges(self, batch: BatchId) -> list[list[int]]:
        key = f"{batch.writer}.{batch.partition}"
        known = self._series.setdefault(key, {})
        if batch.series not in known:
            self._note_start(batch)
        # The series that was heard of last is the last one.
        ranges = known[batch.series] = known.pop(batch.series, [])
        if len(known) > SERIES_KEPT:
            oldest = next(iter(known))
            self._forgotten += self._missing_of(known.pop(oldest))
            self._known_starts[key] = max(self._known_starts.get(key, 0), start_of(oldest))
        return ranges

    def _note_start(self, batch: BatchId) -> None:
        start = start_of(batch.series)
        self._last_starts[batch.writer] = max(self._last_starts.get(batch.writer, 0), start)
        if not self.knows_start:
            self._known_starts.setdefault(str(batch.writer), start - 1)

    def _missing_of(self, ranges: list[list[int]], start: int = 0) -> int:
        begin = 0 if self.knows_start or not ranges else ranges[0][0]
        return _gaps(ranges, max(start, begin))

    def add_end(self, batch: BatchId) -> None:
        """The writer has ended: all numbers before that of its end were sent."""
        self._note_start(batch)
        if batch.first:
            ranges = self._ranges(batch)
            if not ranges or batch.first > ranges[-1][1] + 1:
                ranges.append([batch.first, batch.first - 1])

    def note_sent(self, writer: int, partition: int, sent: Mapping[str, int]) -> None:
        """`sent`: how many numbers each series of a writer has had. What has come is in the order
        of the starts, so of those before the last one nothing comes any more."""
        key, last = f"{writer}.{partition}", self._last_starts.get(writer, 0)
        known = self._series.get(key, {})
        done = max(self._known_starts.get(each, 0) for each in (key, str(writer)))
        for series in sorted(sent, key=start_of):
            start = start_of(series)
            if not done < start < last:
                continue
            self._known_starts[key] = start
            if series not in known:
                self._forgotten += sent[series]
            elif sent[series] > known[series][-1][1] + 1:
                known[series].append([sent[series], sent[series] - 1])

    def missing(self, series: str = "", first: Mapping[int, int] | None = None) -> int:
        """How many numbers have not come although later ones have. With `series`: of this series
        only, from the number `first` of each partition on. From any thread."""
        count = 0 if series else self._forgotten
        for writer, known in list(self._series.items()):
            start = 0 if first is None else first.get(int(writer.partition(".")[2]), 0)
            for name, ranges in list(known.items()):
                if not series or name == series:
                    count += self._missing_of(list(ranges), start)
        return count

    def to_json(self) -> dict[str, Any]:
        return {
            "series": self._series,
            "forgotten": self._forgotten,
            "starts": self._known_starts,
        }

    @classmethod
    def from_json(cls, saved: dict[str, Any] | None) -> SeenBatches:
        seen = cls()
        if saved is not None:
            seen._series = {
                writer: {name: [list(each) for each in ranges] for name, ranges in known.items()}
                for writer, known in saved["series"].items()
            }
            seen._forgotten = saved.get("forgotten", 0)
            seen._known_starts = dict(saved.get("starts", {}))
            for key, known in seen._series.items():
                writer = int(key.partition(".")[0])
                starts = [seen._last_starts.get(writer, 0), *map(start_of, known)]
                seen._last_starts[writer] = max(starts)
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
