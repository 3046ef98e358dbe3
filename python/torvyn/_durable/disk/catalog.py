"""The logs that a database has: their states are loaded, saved and compared with the mark."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from torvyn._durable.backend import ClockStep, LogOptions, LostRange
from torvyn._durable.disk import log
from torvyn._durable.disk.database import (
    MAX_LOGS,
    ROW_COST_SQL,
    SEQUENCE_BITS,
    Budget,
    crc,
    not_a_store,
)
from torvyn._durable.disk.files import Mark
from torvyn._durable.disk.log import Hole, LogState

if TYPE_CHECKING:
    from torvyn._native import Database

_EPOCH: Final = "epoch"
_CLOCK_STEPS: Final = 64
States = dict[str, LogState]


def load_epoch(connection: Database, mark: Mark | None) -> str:
    """The store's id; a new store continues the mark's, if there is one."""
    query = "SELECT value, crc FROM store WHERE name = ?"
    for epoch, checksum in connection.execute(query, (_EPOCH,)):
        if crc(_EPOCH, epoch) != checksum:
            raise not_a_store("the record of its epoch is damaged")
        return str(epoch)
    epoch = mark.epoch if mark is not None else secrets.token_hex(8)
    connection.execute("INSERT INTO store VALUES (?, ?, ?)", (_EPOCH, epoch, crc(_EPOCH, epoch)))
    return epoch


def load(
    connection: Database,
    logs: Mapping[str, LogOptions],
    budget: Budget,
    mark: Mark | None,
) -> States:
    """The logs of the database and those of the flow, which are created."""
    states: States = {}
    for id, name, *fields, checksum in connection.execute("SELECT * FROM logs ORDER BY id"):
        if crc(id, name, *fields) != checksum:
            raise not_a_store("the record of a log is damaged")
        next, acked, dropped, expired, corrupt, discarded = fields
        states[name] = LogState(
            id, name, None, 0, 0, next, acked, dropped, expired, corrupt, discarded
        )
    for name in (*logs, *(mark.logs if mark else ())):
        if name not in states:
            states[name] = _create(connection, name, states, mark)
    for state in states.values():
        _measure(connection, state)
        if (options := logs.get(state.name)) is not None:
            state.options = options
            state.limit_bytes = budget.log_bytes(options.max_bytes)
            state.row_limit_bytes = budget.row_limit_bytes(options.max_bytes)
    return states


def _create(connection: Database, name: str, states: States, mark: Mark | None) -> LogState:
    """A new log has the id that its rows had in an earlier file."""
    taken = {state.id for state in states.values()}
    marked = {id for id, _, _ in mark.logs.values()} if mark else set()
    if mark is not None and name in mark.logs and mark.logs[name][0] not in taken:
        id = mark.logs[name][0]
    else:
        id = next(id for id in range(1, MAX_LOGS) if id not in taken | marked)
    state = LogState(id, name, None)
    values = state.record_with_crc()
    connection.execute("INSERT INTO logs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", values)
    return state


def _measure(connection: Database, state: LogState) -> None:
    """Counts the rows, and loads the holes whose records are intact."""
    span = log.span(state)
    [(rows, size, cost, end)] = connection.execute(
        f"SELECT count(*), total(length(body)), total({ROW_COST_SQL}), max(position + count)"
        " FROM rows WHERE position BETWEEN ? AND ?",
        span,
    )
    if end is not None and end - state.base > state.next:
        raise not_a_store("it has rows beyond the end of their log")
    state.rows, state.bytes, state.cost = rows, int(size), int(cost)
    state.has_settled_rows = rows > 0
    holes = []
    query = "SELECT * FROM holes WHERE position BETWEEN ? AND ? ORDER BY position"
    for position, last, reason, at_ns, reported, checksum in connection.execute(query, span):
        if crc(position, last, reason, at_ns, reported) == checksum:
            first = position & log.SEQUENCE_MASK
            holes.append(Hole(first, last, reason, at_ns, bool(reported)))
    state.holes = tuple(holes)


def save(connection: Database, states: Iterable[LogState]) -> None:
    for state in states:
        id, *fields = state.record_with_crc()
        connection.execute(
            "UPDATE logs SET name = ?, next = ?, acknowledged = ?, dropped = ?, expired = ?,"
            " corrupt = ?, discarded = ?, crc = ? WHERE id = ?",
            (*fields, id),
            is_quick=True,
        )


def apply_mark(
    connection: Database, states: States, epoch: str, mark: Mark | None, at_ns: int
) -> list[LostRange]:
    """Records commits that the database no longer has as lost."""
    lost: list[LostRange] = []
    if mark is None or mark.epoch != epoch:
        return lost
    for name, (_, next, acknowledged) in mark.logs.items():
        state = states[name]
        start, state.next = state.next, max(state.next, next)
        log.settle(connection, state, acknowledged)
        lost += log.lose(connection, state, start, state.next - 1, "corrupt", at_ns)
    return lost


def count_gaps(connection: Database, states: States, at_ns: int) -> list[LostRange]:
    """Records elements that should be in a row and are not as lost."""
    lost: list[LostRange] = []
    for state in states.values():
        for first, last in log.find_gaps(connection, state):
            lost += log.lose(connection, state, first, last, "corrupt", at_ns)
    return lost


def undo_appends(connection: Database, state: LogState, next: int) -> None:
    """Removes what a transaction appended that was reported as failed."""
    span = (state.base + next, state.base + log.SEQUENCE_MASK)
    connection.execute("DELETE FROM rows WHERE position BETWEEN ? AND ?", span)
    connection.execute("DELETE FROM holes WHERE position BETWEEN ? AND ?", span)
    for hole in state.holes:
        if hole.last >= next:
            state.count_loss(hole.reason, next - 1 - max(hole.last, next - 1))
    state.next = next
    state.acknowledged = min(state.acknowledged, next - 1)
    _measure(connection, state)


def save_clock_step(connection: Database, at_ns: int, boot: int, step_ns: int) -> None:
    connection.execute("INSERT INTO clock VALUES (?, ?, ?)", (at_ns, boot, step_ns))
    connection.execute(
        "DELETE FROM clock WHERE rowid NOT IN"
        " (SELECT rowid FROM clock ORDER BY rowid DESC LIMIT ?)",
        (_CLOCK_STEPS,),
    )


def clock_steps(connection: Database) -> list[ClockStep]:
    query = "SELECT at_ns, step_ns FROM clock ORDER BY rowid"
    return [ClockStep(at_ns, step_ns / 1e9) for at_ns, step_ns in connection.execute(query)]


assert SEQUENCE_BITS + MAX_LOGS.bit_length() <= 63
