"""The account of one log: positions, holes, counts.

`acknowledged` is the end of what is settled without a gap: delivered or lost. A hole is a range
beyond it, or one not reported yet, that has no row: lost, or settled out of order. Every sequence
number from `acknowledged + 1` to `next - 1` is in a row or in a hole; what is in neither was
damaged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from torvyn.durable.disk.database import SEQUENCE_BITS, crc
from torvyn.durable.records import LogOptions, LogStatistics, LossReason, LostRange

Withdraw: TypeAlias = Callable[[list[tuple[int, int]]], bool]
"""Takes ranges of elements back from the reader of a log. False if it has begun to deliver them."""
SETTLED: Final = "settled"
"""The reason of a hole that is no loss."""


@dataclass(frozen=True, slots=True)
class Hole:
    first: int
    last: int
    reason: str
    at_ns: int
    is_reported: bool

    @property
    def count(self) -> int:
        return self.last - self.first + 1

    def continues_to(self, other: Hole) -> bool:
        """Whether both can be one hole."""
        is_alike = (self.reason, self.is_reported) == (other.reason, other.is_reported)
        return is_alike and self.last + 1 == other.first


@dataclass(slots=True)
class LogState:
    id: int
    name: str
    options: LogOptions | None
    """None for a log that the flow no longer has."""
    limit_bytes: int = 0
    row_limit_bytes: int = 0
    next: int = 0
    acknowledged: int = -1
    dropped: int = 0
    expired: int = 0
    corrupt: int = 0
    discarded: int = 0
    expired_behind_reader: int = 0
    """Of `expired`, since the store was opened: what a reader had got. It is not stored."""
    rows: int = 0
    bytes: int = 0
    cost: int = 0
    read_up_to: int = -1
    """The last sequence number that a reader has got: such rows are not dropped under it."""
    withdraw: Withdraw | None = None
    """Takes a row back from a reader that can give it back."""
    holes: tuple[Hole, ...] = ()
    has_settled_rows: bool = False
    """There may be rows to delete."""

    def copy(self) -> LogState:
        return replace(self)

    @property
    def base(self) -> int:
        """The key of the log's row 0."""
        return self.id << SEQUENCE_BITS

    @property
    def elements(self) -> int:
        """Elements neither settled nor lost."""
        ahead = sum(
            hole.last - max(hole.first - 1, self.acknowledged)
            for hole in self.holes
            if hole.last > self.acknowledged
        )
        return self.next - 1 - self.acknowledged - ahead

    def record(self) -> tuple[int, str, int, int, int, int, int, int]:
        """The fields of the table `logs`, without the CRC."""
        return (
            self.id,
            self.name,
            self.next,
            self.acknowledged,
            self.dropped,
            self.expired,
            self.corrupt,
            self.discarded,
        )

    def record_with_crc(self) -> tuple[object, ...]:
        fields = self.record()
        return (*fields, crc(*fields))

    def count_loss(self, reason: str, count: int) -> None:
        if reason == "dropped":
            self.dropped += count
        elif reason == "expired":
            self.expired += count
        elif reason == "corrupt":
            self.corrupt += count
        elif reason == "discarded":
            self.discarded += count

    def may_drop(self, first: int, last: int) -> bool:
        """Whether a row may be dropped. Its reader does not deliver it any more then."""
        if self.withdraw is None:
            return first > self.read_up_to
        return self.withdraw(list(self.uncovered(first, last)))

    def uncovered(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        """The parts of a range that are neither settled nor in a hole."""
        start = max(first, self.acknowledged + 1)
        for hole in self.holes:
            if hole.last < start:
                continue
            if hole.first > last:
                break
            if hole.first > start:
                yield start, hole.first - 1
            start = hole.last + 1
        if start <= last:
            yield start, last

    def around(self, first: int, last: int) -> tuple[int, int]:
        """A range of settled and lost elements, with the holes that continue it."""
        for hole in reversed(self.holes):
            if hole.first < first <= hole.last + 1:
                first = hole.first
        for hole in self.holes:
            if hole.first <= last + 1 <= hole.last:
                last = hole.last
        return first, last

    def add_hole(self, hole: Hole) -> Hole:
        """Adds a hole; returns it, merged with its neighbours if it continues them."""
        start = len(self.holes)
        while start and self.holes[start - 1].first > hole.first:
            start -= 1
        end = start
        if start and self.holes[start - 1].continues_to(hole):
            start -= 1
            hole = replace(hole, first=self.holes[start].first)
        if end < len(self.holes) and hole.continues_to(self.holes[end]):
            hole = replace(hole, last=self.holes[end].last)
            end += 1
        self.holes = (*self.holes[:start], hole, *self.holes[end:])
        return hole

    def advance(self) -> list[Hole]:
        """Moves `acknowledged` over the holes that follow it; removes and returns the holes that
        nobody needs any more."""
        for hole in self.holes:
            if hole.first > self.acknowledged + 1:
                break
            self.acknowledged = max(self.acknowledged, hole.last)
        done = [h for h in self.holes if h.is_reported and h.last <= self.acknowledged]
        if done:
            gone = {hole.first for hole in done}
            self.holes = tuple(hole for hole in self.holes if hole.first not in gone)
        return done

    def lost(self) -> list[LostRange]:
        return [
            lost_range(self.name, hole)
            for hole in self.holes
            if hole.reason != SETTLED and not hole.is_reported
        ]

    def statistics(self, oldest_ns: int | None) -> LogStatistics:
        lost = self.dropped + self.expired + self.corrupt + self.discarded
        return LogStatistics(
            rows=self.rows,
            elements=self.elements,
            bytes=self.bytes,
            disk_bytes=self.cost,
            limit_bytes=self.limit_bytes,
            oldest_ns=oldest_ns,
            appended=self.next,
            acknowledged=self.next - self.elements - lost,
            dropped=self.dropped,
            expired=self.expired,
            corrupt=self.corrupt,
            discarded=self.discarded,
            expired_behind_reader=self.expired_behind_reader,
        )


def lost_range(log: str, hole: Hole) -> LostRange:
    reason: LossReason = hole.reason  # type: ignore[assignment]
    return LostRange(log, hole.first, hole.last, reason, hole.at_ns)
