"""The saved states of segments: a log of changes each, and a record with its ends.

That record is written anew behind each change, in the same pages of the database. Earlier versions
had one record per node and the shape under no name. They are read, and replaced by the first
change.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from torvyn._durable.disk.database import FRAME_BYTES, crc, row_cost
from torvyn._durable.state_log import Checkpoint, SavedState, chunk_parts, replay

if TYPE_CHECKING:
    from torvyn._native import Database

logger = logging.getLogger("torvyn.durable")

_HEAD: Final = "~"
"""Behind the numbers of all changes."""
_SHAPE: Final = ""
_DELETED: Final = (64, 256)
"""Changes that are not needed any more are deleted from so many on, and at most so many per
commit."""
_ROW_BYTES: Final = 256
"""A row without its change: the page that it begins, and its part of the index."""
_SPARE_ROWS: Final = 64
_PAGE_BYTES: Final = 1024 * 1024
_QUICK_BYTES: Final = 64 * 1024


class StateGoneError(Exception):
    """What a change continues is not stored any more. Nothing of the transaction is stored."""


def save(connection: Database, checkpoint: Checkpoint) -> None:
    """Appends a change, or replaces the last one if it has its number."""
    segment, number, first = checkpoint.segment, checkpoint.number, checkpoint.first
    oldest, size = first, 0
    if checkpoint.is_whole:
        connection.execute("DELETE FROM checkpoints WHERE segment = ?", (segment,))
        # An earlier version says that the checkpoint is damaged, instead of finding none.
        connection.execute("INSERT INTO checkpoints VALUES (?, ?, ?, ?)", (segment, _SHAPE, b"", 0))
    elif (head := _head(connection, segment)) is None or not _continues(head, checkpoint):
        raise StateGoneError(segment)
    else:
        size = head[4] - _size(connection, segment, number, number + 1)
        oldest, freed = _delete_before(connection, segment, head[0], first)
        size -= freed
    record = [oldest, first, number, checkpoint.shape, size + len(checkpoint.body)]
    state = json.dumps(record, separators=(",", ":")).encode()
    for node, value in ((_name(number), checkpoint.body), (_HEAD, state)):
        connection.execute(
            "INSERT OR REPLACE INTO checkpoints VALUES (?, ?, ?, ?)",
            (segment, node, value, crc(segment, node, "", body=value)),
            is_quick=len(value) < _QUICK_BYTES,
        )


def wal_bytes(checkpoint: Checkpoint | None) -> int:
    """What saving it adds to the WAL, about."""
    if checkpoint is None or not checkpoint.is_new:
        return 0
    return row_cost(len(checkpoint.body)) // (FRAME_BYTES - 24) * FRAME_BYTES + 8 * FRAME_BYTES


def _continues(head: list[Any], checkpoint: Checkpoint) -> bool:
    _, first, last, *_ = head
    return bool(first <= checkpoint.first and checkpoint.number - 1 <= last <= checkpoint.number)


def _delete_before(connection: Database, segment: str, oldest: int, first: int) -> tuple[int, int]:
    """Deletes some of the changes that are not needed; returns the oldest that is left, and the
    bytes of those that are gone."""
    fewest, most = _DELETED
    if first - oldest < fewest:
        return oldest, 0
    end = min(first, oldest + most)
    freed = _size(connection, segment, oldest, end)
    connection.execute(
        "DELETE FROM checkpoints WHERE segment = ? AND node >= ? AND node < ?",
        (segment, _name(oldest), _name(end)),
        is_quick=True,
    )
    return end, freed


def _size(connection: Database, segment: str, start: int, end: int) -> int:
    query = (
        "SELECT total(length(state)) FROM checkpoints WHERE segment = ? AND node >= ? AND node < ?"
    )
    [(size,)] = connection.execute(query, (segment, _name(start), _name(end)), is_quick=True)
    return int(size)


def space(connection: Database, segment: str) -> int:
    """What a segment's state occupies in the database, rounded up."""
    rows: int
    if (head := _head(connection, segment)) is not None:
        oldest, _, number, _, size = head
        rows = number - oldest + 2
    else:
        query = "SELECT total(length(state)), count(*) FROM checkpoints WHERE segment = ?"
        [(size, rows)] = connection.execute(query, (segment,))
    return int(size) * 5 // 4 + (rows + _SPARE_ROWS) * _ROW_BYTES


def _name(number: int) -> str:
    return f"{number:016}"


def _head(connection: Database, segment: str) -> list[Any] | None:
    """The oldest change that is there, the first one that is needed, the last one, the shape, and
    the bytes of all changes that are there."""
    query = "SELECT state, crc FROM checkpoints WHERE segment = ? AND node = ?"
    for state, stored in connection.execute(query, (segment, _HEAD)):
        if crc(segment, _HEAD, "", body=state) == stored:
            head: list[Any] = json.loads(state)
            return head
    return None


def load(connection: Database, segment: str) -> SavedState | None:
    """The segment's state; None if there is none, or if it is damaged, which is logged."""
    if (head := _head(connection, segment)) is not None:
        _, first, last, shape, _ = head
        changes = _changes(connection, segment, first, last)
        try:
            return replay(segment, shape, changes)
        except ValueError:
            _note_damage(segment)
            return None
    return _load_whole(connection, segment)


def _changes(
    connection: Database, segment: str, first: int, last: int
) -> Iterator[tuple[int, bytes]]:
    """Raises `ValueError` if one is missing or damaged."""
    query = (
        "SELECT node, state, crc FROM checkpoints WHERE segment = ? AND node >= ? AND node <= ?"
        " ORDER BY node"
    )
    number, is_last = first, False
    while not is_last:
        rows, is_last = connection.page(query, (segment, _name(number), _name(last)), _PAGE_BYTES)
        for node, state, stored in rows:
            if node != _name(number) or crc(segment, node, "", body=state) != stored:
                raise ValueError(node)
            yield number, state
            number += 1
    if number != last + 1:
        raise ValueError(_name(number))


def _load_whole(connection: Database, segment: str) -> SavedState | None:
    """What an earlier version has saved."""
    query = "SELECT node, state, crc FROM checkpoints WHERE segment = ?"
    records = connection.execute(query, (segment,))
    if not records:
        return None
    nodes = ",".join(sorted(str(node) for node, _, _ in records))
    for node, state, stored in records:
        # The shape's CRC covers the names, so that a missing state is noticed.
        names = nodes if node == _SHAPE else ""
        if not isinstance(state, bytes) or crc(segment, node, names, body=state) != stored:
            _note_damage(segment)
            return None
    states = {node: state for node, state, _ in records}
    shape = states.pop(_SHAPE, None)
    if shape is None:
        return None
    chunks = {node: chunk_parts(state) for node, state in states.items()}
    parts = {(node, part): value for node, own in chunks.items() for part, value in own.items()}
    saved_at = dict.fromkeys(parts, 1)
    return SavedState(segment, shape.decode(), 1, 1, parts, saved_at, is_log=False)


def _note_damage(segment: str) -> None:
    logger.error("the checkpoint of segment `%s` is damaged and not used", segment)


def segments(connection: Database) -> list[str]:
    query = "SELECT DISTINCT segment FROM checkpoints ORDER BY segment"
    return [segment for (segment,) in connection.execute(query)]


def discard(connection: Database, segment: str) -> None:
    connection.execute("DELETE FROM checkpoints WHERE segment = ?", (segment,))


def discard_damaged(connection: Database) -> None:
    """Removes what cannot be used, so that the next change finds that it is gone."""
    for segment in segments(connection):
        if load(connection, segment) is None:
            discard(connection, segment)
