"""The saved states of segments: one record per node, and one with the shape under no name."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from torvyn.durable.disk.database import crc
from torvyn.durable.records import Checkpoint

if TYPE_CHECKING:
    from torvyn._native import Database

logger = logging.getLogger("torvyn.durable")

_SHAPE = ""


def save(connection: Database, checkpoint: Checkpoint) -> None:
    """Replaces the segment's checkpoint."""
    segment = checkpoint.segment
    states = {**checkpoint.states, _SHAPE: checkpoint.shape.encode()}
    connection.execute(
        "DELETE FROM checkpoints WHERE segment = ? AND node NOT IN "
        f"({','.join('?' * len(states))})",
        (segment, *states),
    )
    nodes = ",".join(sorted(states))
    for node, state in states.items():
        # The shape's CRC covers the names, so that a missing state is noticed.
        names = nodes if node == _SHAPE else ""
        record = (segment, node, state, crc(segment, node, names, body=state))
        connection.execute("INSERT OR REPLACE INTO checkpoints VALUES (?, ?, ?, ?)", record)


def load(connection: Database, segment: str) -> Checkpoint | None:
    """The segment's checkpoint; None if there is none, or if it is damaged, which is logged."""
    query = "SELECT node, state, crc FROM checkpoints WHERE segment = ?"
    records = connection.execute(query, (segment,))
    if not records:
        return None
    nodes = ",".join(sorted(str(node) for node, _, _ in records))
    for node, state, stored in records:
        names = nodes if node == _SHAPE else ""
        if not isinstance(state, bytes) or crc(segment, node, names, body=state) != stored:
            logger.error("the checkpoint of segment `%s` is damaged and not used", segment)
            return None
    states = {node: state for node, state, _ in records}
    shape = states.pop(_SHAPE, None)
    return None if shape is None else Checkpoint(segment, shape.decode(), states)


def segments(connection: Database) -> list[str]:
    query = "SELECT DISTINCT segment FROM checkpoints ORDER BY segment"
    return [segment for (segment,) in connection.execute(query)]


def discard(connection: Database) -> None:
    connection.execute("DELETE FROM checkpoints")
