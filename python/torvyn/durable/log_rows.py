"""The rows of one log: append, settle, drop, read, quarantine.

Every function works inside the caller's transaction and keeps the log's account in step with it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from torvyn.durable.clock import AgeClock
from torvyn.durable.disk.budget import ROW_COST_SQL, row_cost
from torvyn.durable.disk.database import SEQUENCE_BITS, crc
from torvyn.durable.log_state import SETTLED, Hole, LogState, lost_range
from torvyn.durable.records import Append, LostRange, Row

SEQUENCE_MASK: Final = (1 << SEQUENCE_BITS) - 1
_QUARANTINE_BYTES: Final = 64 * 1024
"""Of each damaged row, and `_QUARANTINE_ROWS` of them, are kept for people to look at."""
_QUARANTINE_ROWS: Final = 4
_WHOLE_ROWS: Final = "WHERE position BETWEEN ? AND ? AND position + count - 1 <= ?"


def is_intact(record: tuple[Any, ...]) -> bool:
    """Whether a record of the table `rows` fits its CRC."""
    *fields, checksum, body = record
    return isinstance(body, bytes) and crc(*fields, body=body) == checksum


def append(connection: sqlite3.Connection, state: LogState, new: Append, clock: AgeClock) -> None:
    position, boot, up_ns = state.base + new.first, clock.boot, clock.uptime_ns()
    fields = (position, new.count, new.newest_ns, boot, up_ns)
    connection.execute(
        "INSERT INTO rows VALUES (?, ?, ?, ?, ?, ?, ?)",
        (*fields, crc(*fields, body=new.body), new.body),
    )
    state.next = new.first + new.count
    state.rows += 1
    state.bytes += len(new.body)
    state.cost += row_cost(len(new.body))


def settle(connection: sqlite3.Connection, state: LogState, up_to: int) -> None:
    """Everything up to a sequence number is settled. `delete_settled` removes the rows."""
    if up_to > state.acknowledged:
        state.acknowledged = up_to
        state.has_settled_rows = True
        prune(connection, state)


def delete_settled(
    connection: sqlite3.Connection, states: Iterable[LogState], max_rows: int
) -> None:
    """Deletes rows whose last element is settled: so many, because each adds to the WAL."""
    for state in states:
        if state.has_settled_rows and max_rows > 0:
            rows = _delete_settled(connection, state, max_rows)
            state.has_settled_rows = rows == max_rows
            max_rows -= rows


def _delete_settled(connection: sqlite3.Connection, state: LogState, max_rows: int) -> int:
    end = state.base + state.acknowledged
    (cut,) = connection.execute(
        "SELECT max(position) FROM (SELECT position FROM rows WHERE position BETWEEN ? AND ?"
        " ORDER BY position LIMIT ?)",
        (state.base, end, max_rows),
    ).fetchone()
    if cut is None:
        return 0
    return _delete(connection, state, _WHOLE_ROWS, (state.base, cut, end))


def settle_range(connection: sqlite3.Connection, state: LogState, first: int, last: int) -> None:
    """Whole rows are settled. Those that others before them still wait for are deleted at once."""
    if first <= state.acknowledged + 1:
        settle(connection, state, last)
        return
    span = (state.base + first, state.base + last, state.base + last)
    _delete(connection, state, _WHOLE_ROWS, span)
    for start, end in list(state.uncovered(first, last)):
        _put_hole(connection, state, Hole(start, end, SETTLED, 0, True))


def lose(
    connection: sqlite3.Connection,
    state: LogState,
    first: int,
    last: int,
    reason: str,
    at_ns: int,
) -> list[LostRange]:
    """Records the elements of a range that are not settled and not lost yet as lost."""
    new = [Hole(*part, reason, at_ns, False) for part in state.uncovered(first, last)]
    for hole in new:
        _put_hole(connection, state, hole)
        state.count_loss(reason, hole.count)
    prune(connection, state)
    return [lost_range(state.name, hole) for hole in new]


def _put_hole(connection: sqlite3.Connection, state: LogState, hole: Hole) -> None:
    merged = state.add_hole(hole)
    if merged.first != hole.first:
        connection.execute("DELETE FROM holes WHERE position = ?", (state.base + hole.first,))
    hole, position = merged, state.base + merged.first
    fields = (position, hole.last, hole.reason, hole.at_ns, int(hole.is_reported))
    connection.execute(
        "INSERT OR REPLACE INTO holes VALUES (?, ?, ?, ?, ?, ?)", (*fields, crc(*fields))
    )


def prune(connection: sqlite3.Connection, state: LogState) -> None:
    for hole in state.advance():
        connection.execute("DELETE FROM holes WHERE position = ?", (state.base + hole.first,))


def report_holes(connection: sqlite3.Connection, state: LogState, up_to: int) -> None:
    """The ranges up to a sequence number were reported; they are kept while rows need them."""
    reported = [h for h in state.holes if h.last <= up_to and not h.is_reported]
    state.holes = tuple(hole for hole in state.holes if hole not in reported)
    for hole in reported:
        _put_hole(connection, state, Hole(hole.first, hole.last, hole.reason, hole.at_ns, True))
    prune(connection, state)


def drop_oldest(
    connection: sqlite3.Connection,
    state: LogState,
    is_enough: Callable[[], bool],
    reason: str,
    at_ns: int,
) -> list[LostRange]:
    """Drops whole rows that no reader has, oldest first, until it is enough."""
    lost: list[LostRange] = []
    while not is_enough():
        found = oldest(connection, state)
        if found is None:
            break
        _delete(connection, state, "WHERE position = ?", (state.base + found.first,))
        lost += lose(connection, state, found.first, found.last, reason, at_ns)
    return lost


@dataclass(frozen=True, slots=True)
class Head:
    """The oldest row that no reader has, without its body."""

    first: int
    last: int
    newest_ns: int
    boot: int
    uptime_ns: int


def oldest(connection: sqlite3.Connection, state: LogState) -> Head | None:
    found = connection.execute(
        "SELECT position, count, newest_ns, boot, uptime_ns FROM rows"
        " WHERE position > ? AND position <= ? ORDER BY position LIMIT 1",
        (state.base + state.read_up_to, state.base + SEQUENCE_MASK),
    ).fetchone()
    if found is None:
        return None
    first = found[0] & SEQUENCE_MASK
    return Head(first, first + found[1] - 1, *found[2:])


def oldest_ns(connection: sqlite3.Connection, state: LogState) -> int | None:
    found = connection.execute(
        "SELECT newest_ns FROM rows WHERE position BETWEEN ? AND ? ORDER BY position LIMIT 1",
        span(state),
    ).fetchone()
    return None if found is None else found[0]


def discard(
    connection: sqlite3.Connection, states: Iterable[LogState], at_ns: int
) -> list[LostRange]:
    """Removes every row."""
    lost: list[LostRange] = []
    connection.execute("DELETE FROM rows")
    for state in states:
        state.rows = state.bytes = state.cost = 0
        start, end = state.acknowledged + 1, state.next - 1
        lost += lose(connection, state, start, end, "discarded", at_ns)
    return lost


def _delete(
    connection: sqlite3.Connection, state: LogState, where: str, values: Iterable[int]
) -> int:
    values = tuple(values)
    rows, size, cost = connection.execute(
        f"SELECT count(*), total(length(body)), total({ROW_COST_SQL}) FROM rows {where}", values
    ).fetchone()
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


def read(connection: sqlite3.Connection, state: LogState, after: int, max_bytes: int) -> Page:
    """The rows with elements behind `after`: at least one if there is any."""
    page, size, expected = Page(), 0, max(after, state.acknowledged) + 1
    for position, row in _rows_from(connection, state, expected):
        if row is None:
            page.damaged.append(position)
            continue
        if row.last < expected:
            continue
        page.gaps += state.uncovered(expected, row.first - 1)
        expected = row.last + 1
        page.rows.append(row)
        size += len(row.body)
        if size >= max_bytes:
            return page
    page.gaps += state.uncovered(expected, state.next - 1)
    page.is_last = True
    return page


def _rows_from(
    connection: sqlite3.Connection, state: LogState, sequence: int
) -> Iterator[tuple[int, Row | None]]:
    """The rows from the one that may contain the sequence number; None for a damaged one."""
    (start,) = connection.execute(
        "SELECT max(position) FROM rows WHERE position BETWEEN ? AND ?",
        (state.base, state.base + sequence),
    ).fetchone()
    cursor = connection.execute(
        "SELECT position, count, newest_ns, boot, uptime_ns, crc, body FROM rows"
        " WHERE position BETWEEN ? AND ? ORDER BY position",
        (state.base if start is None else start, span(state)[1]),
    )
    for record in cursor:
        position, count, newest_ns, *_, body = record
        if is_intact(record):
            yield position, Row(position & SEQUENCE_MASK, count, body, newest_ns)
        else:
            yield position, None


def find_gaps(connection: sqlite3.Connection, state: LogState) -> list[tuple[int, int]]:
    """Ranges that should have rows and have none, by the positions and counts of the rows."""
    gaps: list[tuple[int, int]] = []
    expected = state.acknowledged + 1
    (there,) = connection.execute(
        "SELECT total(position + count - max(position, ?)) FROM rows"
        " WHERE position BETWEEN ? AND ? AND position + count > ?",
        (state.base + expected, *span(state), state.base + expected),
    ).fetchone()
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


def quarantine(connection: sqlite3.Connection, state: LogState, position: int, reason: str) -> None:
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
