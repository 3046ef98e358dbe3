"""One log: its account, and its rows.

`acknowledged` is the end of what is settled without a gap: delivered or lost. A hole is a range
beyond it, or one not reported yet, that has no row: lost, or settled out of order. Every sequence
number from `acknowledged + 1` to `next - 1` is in a row or in a hole; what is in neither was
damaged. Rows are appended, settled, dropped, read and quarantined inside the caller's transaction,
which keeps the account in step with them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from torvyn._durable.backend import Append, LogOptions, LogStatistics, LossReason, LostRange, Row
from torvyn._durable.disk.clock import AgeClock
from torvyn._durable.disk.database import ROW_COST_SQL, SEQUENCE_BITS, crc, row_cost

if TYPE_CHECKING:
    from torvyn._native import Database

SEQUENCE_MASK: Final = (1 << SEQUENCE_BITS) - 1
_QUARANTINE_BYTES: Final = 64 * 1024
"""Of each damaged row, and `_QUARANTINE_ROWS` of them, are kept for people to look at."""
_QUARANTINE_ROWS: Final = 4
MOST_LOST_RANGES: Final = 1024
"""So many of a log are kept until they are reported."""
_FORGOTTEN_AT_ONCE: Final = 64
_QUICK_BYTES: Final = 32 * 1024
"""Storing so much takes less time than to give the interpreter away and to get it back."""
_ROWS_FROM: Final = (
    "SELECT position, count, newest_ns, boot, uptime_ns, crc, body FROM rows"
    " WHERE position BETWEEN ? AND ? ORDER BY position"
)
_WHOLE_ROWS: Final = "WHERE position BETWEEN ? AND ? AND position + count - 1 <= ?"


def is_intact(record: tuple[Any, ...]) -> bool:
    """Whether a record of the table `rows` fits its CRC."""
    *fields, checksum, body = record
    return isinstance(body, bytes) and crc(*fields, body=body) == checksum


def append(connection: Database, state: LogState, new: Append, clock: AgeClock) -> None:
    position, boot, up_ns = state.base + new.first, clock.boot, clock.uptime_ns()
    fields = (position, new.count, new.newest_ns, boot, up_ns)
    connection.execute(
        "INSERT INTO rows VALUES (?, ?, ?, ?, ?, ?, ?)",
        (*fields, crc(*fields, body=new.body), new.body),
        is_quick=len(new.body) <= _QUICK_BYTES,
    )
    state.next = new.first + new.count
    state.rows += 1
    state.bytes += len(new.body)
    state.cost += row_cost(len(new.body))


def settle(connection: Database, state: LogState, up_to: int) -> None:
    """Everything up to a sequence number is settled. `delete_settled` removes the rows."""
    if up_to > state.acknowledged:
        state.acknowledged = up_to
        state.has_settled_rows = True
        prune(connection, state)


def delete_settled(connection: Database, states: Iterable[LogState], max_rows: int) -> None:
    """Deletes rows whose last element is settled: so many, because each adds to the WAL."""
    for state in states:
        if state.has_settled_rows and max_rows > 0:
            rows = _delete_settled(connection, state, max_rows)
            state.has_settled_rows = rows == max_rows
            max_rows -= rows


def _delete_settled(connection: Database, state: LogState, max_rows: int) -> int:
    end = state.base + state.acknowledged
    [(cut,)] = connection.execute(
        "SELECT max(position) FROM (SELECT position FROM rows WHERE position BETWEEN ? AND ?"
        " ORDER BY position LIMIT ?)",
        (state.base, end, max_rows),
    )
    if cut is None:
        return 0
    return _delete(connection, state, _WHOLE_ROWS, (state.base, cut, end))


def settle_range(connection: Database, state: LogState, first: int, last: int) -> None:
    """Elements are settled, in whatever order. Rows that are settled as a whole are deleted,
    although others before them are not."""
    if first <= state.acknowledged + 1:
        settle(connection, state, last)
        return
    for start, end in list(state.uncovered(first, last)):
        _put_hole(connection, state, Hole(start, end, SETTLED, 0, True))
    first, last = state.around(first, last)
    span = (state.base + first, state.base + last, state.base + last)
    _delete(connection, state, _WHOLE_ROWS, span)


def expire(
    connection: Database, state: LogState, ranges: Iterable[tuple[int, int]], at_ns: int
) -> list[LostRange]:
    """Records elements as expired that became too old after the reader had got them. The
    transaction settles them, too: of more than can be kept, it has the count."""
    parts = [part for each in ranges for part in state.uncovered(*each)]
    holes = [Hole(*part, "expired", at_ns, False) for part in parts]
    counted, kept = holes[:-MOST_LOST_RANGES], holes[-MOST_LOST_RANGES:]
    for hole in counted:
        state.count_loss(hole.reason, hole.count)
    _add_losses(connection, state, kept)
    state.expired_behind_reader += sum(hole.count for hole in holes)
    state.has_settled_rows = True
    return [lost_range(state.name, hole) for hole in holes]


def lose(
    connection: Database,
    state: LogState,
    first: int,
    last: int,
    reason: str,
    at_ns: int,
) -> list[LostRange]:
    """Records the elements of a range that are not settled and not lost yet as lost."""
    new = [Hole(*part, reason, at_ns, False) for part in state.uncovered(first, last)]
    _add_losses(connection, state, new)
    return [lost_range(state.name, hole) for hole in new]


def _add_losses(connection: Database, state: LogState, new: Sequence[Hole]) -> None:
    for hole in new:
        _put_hole(connection, state, hole)
        state.count_loss(hole.reason, hole.count)
    prune(connection, state)
    unreported = [hole for hole in state.holes if not hole.is_reported]
    if (excess := len(unreported) - MOST_LOST_RANGES) > 0:
        # Nobody has asked for so long: only their count is kept.
        at = min(excess + _FORGOTTEN_AT_ONCE, len(unreported)) - 1
        report_holes(connection, state, unreported[at].last)


def _put_hole(connection: Database, state: LogState, hole: Hole) -> Hole:
    """Returns it with the neighbours that it was merged with."""
    merged = state.add_hole(hole)
    position, end = state.base + merged.first, state.base + merged.last
    if merged != hole:
        query = "DELETE FROM holes WHERE position > ? AND position <= ?"
        connection.execute(query, (position, end))
    fields = (position, merged.last, merged.reason, merged.at_ns, int(merged.is_reported))
    connection.execute(
        "INSERT OR REPLACE INTO holes VALUES (?, ?, ?, ?, ?, ?)", (*fields, crc(*fields))
    )
    return merged


def prune(connection: Database, state: LogState) -> None:
    for hole in state.advance():
        connection.execute("DELETE FROM holes WHERE position = ?", (state.base + hole.first,))


def report_holes(connection: Database, state: LogState, up_to: int) -> None:
    """The ranges up to a sequence number were reported; they are kept while rows need them."""
    reported = [h for h in state.holes if h.last <= up_to and not h.is_reported]
    state.holes = tuple(h for h in state.holes if h.last > up_to or h.is_reported)
    for hole in reported:
        _put_hole(connection, state, Hole(hole.first, hole.last, hole.reason, hole.at_ns, True))
    prune(connection, state)


def drop_oldest(
    connection: Database,
    state: LogState,
    is_enough: Callable[[Head], bool],
    reason: str,
    at_ns: int,
) -> list[LostRange]:
    """Drops whole rows that are not being delivered, oldest first, until it is enough. It is asked
    with the row that comes next."""
    lost: list[LostRange] = []
    after = -1
    while (found := oldest(connection, state, after)) is not None and not is_enough(found):
        after = found.last
        if not state.may_drop(found.first, found.last):
            continue
        _delete(connection, state, "WHERE position = ?", (state.base + found.first,))
        lost += lose(connection, state, found.first, found.last, reason, at_ns)
    return lost


@dataclass(frozen=True, slots=True)
class Head:
    """A row without its body."""

    first: int
    last: int
    newest_ns: int
    boot: int
    uptime_ns: int


def oldest(connection: Database, state: LogState, after: int) -> Head | None:
    """The first row behind a sequence number."""
    if state.withdraw is None:
        after = max(after, state.read_up_to)
    found = connection.execute(
        "SELECT position, count, newest_ns, boot, uptime_ns FROM rows"
        " WHERE position > ? AND position <= ? ORDER BY position LIMIT 1",
        (state.base + after, state.base + SEQUENCE_MASK),
    )
    for position, count, *times in found:
        first = position & SEQUENCE_MASK
        return Head(first, first + count - 1, *times)
    return None


def oldest_ns(connection: Database, state: LogState) -> int | None:
    found = connection.execute(
        "SELECT newest_ns FROM rows WHERE position BETWEEN ? AND ? ORDER BY position LIMIT 1",
        span(state),
    )
    return found[0][0] if found else None


def discard(connection: Database, states: Iterable[LogState], at_ns: int) -> list[LostRange]:
    """Removes every row of these logs."""
    lost: list[LostRange] = []
    for state in states:
        connection.execute("DELETE FROM rows WHERE position BETWEEN ? AND ?", span(state))
        state.rows = state.bytes = state.cost = 0
        start, end = state.acknowledged + 1, state.next - 1
        lost += lose(connection, state, start, end, "discarded", at_ns)
    return lost


def _delete(connection: Database, state: LogState, where: str, values: Iterable[int]) -> int:
    values = tuple(values)
    [(rows, size, cost)] = connection.execute(
        f"SELECT count(*), total(length(body)), total({ROW_COST_SQL}) FROM rows {where}", values
    )
    if rows:
        connection.execute(f"DELETE FROM rows {where}", values)
    state.rows -= rows
    state.bytes -= int(size)
    state.cost -= int(cost)
    return int(rows)


@dataclass(slots=True)
class Page:
    """Rows in order, and what a reader must know to skip the rest."""

    rows: list[Row] = field(default_factory=list)
    damaged: list[int] = field(default_factory=list)
    """The positions of rows whose CRC does not fit."""
    gaps: list[tuple[int, int]] = field(default_factory=list)
    """Ranges that should have had rows."""
    is_last: bool = False
    """There are no rows behind it."""


def read(connection: Database, state: LogState, after: int, max_bytes: int) -> Page:
    """The rows with elements behind `after`: at least one if there is any."""
    page, expected = Page(), max(after, state.acknowledged) + 1
    start = _start(connection, state, expected)
    while not page.rows and not page.is_last:
        records, page.is_last = connection.page(_ROWS_FROM, (start, span(state)[1]), max_bytes)
        for record in records:
            expected = _add_record(page, state, record, expected)
            start = record[0] + 1
    if page.is_last:
        page.gaps += state.uncovered(expected, state.next - 1)
    return page


def _add_record(page: Page, state: LogState, record: tuple[Any, ...], expected: int) -> int:
    """Adds a row behind what the reader has; returns the sequence number that follows it."""
    position, count, newest_ns, *_, body = record
    if not is_intact(record):
        page.damaged.append(position)
        return expected
    row = Row(position & SEQUENCE_MASK, count, body, newest_ns)
    if row.last < expected:
        return expected
    page.gaps += state.uncovered(expected, row.first - 1)
    page.rows.append(row)
    return row.last + 1


def _start(connection: Database, state: LogState, sequence: int) -> int:
    """The key of the row that may contain the sequence number."""
    [(start,)] = connection.execute(
        "SELECT max(position) FROM rows WHERE position BETWEEN ? AND ?",
        (state.base, state.base + sequence),
    )
    return state.base if start is None else int(start)


def find_gaps(connection: Database, state: LogState) -> list[tuple[int, int]]:
    """Ranges that should have rows and have none, by the positions and counts of the rows."""
    gaps: list[tuple[int, int]] = []
    expected = state.acknowledged + 1
    [(there,)] = connection.execute(
        "SELECT total(position + count - max(position, ?)) FROM rows"
        " WHERE position BETWEEN ? AND ? AND position + count > ?",
        (state.base + expected, *span(state), state.base + expected),
    )
    if there == state.elements:
        return []
    query = "SELECT position, count FROM rows WHERE position BETWEEN ? AND ? ORDER BY position"
    for position, count in connection.execute(query, span(state)):
        first = position & SEQUENCE_MASK
        gaps += state.uncovered(expected, first - 1)
        expected = max(expected, first + count)
    gaps += state.uncovered(expected, state.next - 1)
    return gaps


def span(state: LogState) -> tuple[int, int]:
    """The first and the last key of a log."""
    return state.base, state.base + SEQUENCE_MASK


def quarantine(connection: Database, state: LogState, position: int, reason: str) -> None:
    """Moves a row out of the log. The start of its body is kept for people to look at."""
    connection.execute(
        "INSERT OR REPLACE INTO quarantine"
        " SELECT position, ?, CAST(substr(body, 1, ?) AS BLOB) FROM rows WHERE position = ?",
        (reason, _QUARANTINE_BYTES, position),
    )
    connection.execute(
        "DELETE FROM quarantine WHERE position NOT IN"
        " (SELECT position FROM quarantine ORDER BY rowid DESC LIMIT ?)",
        (_QUARANTINE_ROWS,),
    )
    _delete(connection, state, "WHERE position = ?", (position,))


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
