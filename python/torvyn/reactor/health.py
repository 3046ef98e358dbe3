"""Whether a running flow works, judged by its statistics.

    moving    an element has moved since the last check
    idle      the flow is empty, and its sources wait for input
    waiting   nothing moves because a component has no connection, and says so
    stalled   elements are in the flow, and none has moved for too long
    silent    the sources have sent nothing for longer than `max_silence`

The last two are failures: a restart may help. It does not help against a network that is away, so a
component that reports a lost connection (`torvyn.components.connection`) keeps its flow healthy.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from torvyn.components.connection import ConnectionState
from torvyn.contract.enums import Role, TextEnum
from torvyn.reactor.statistics import NodeStatistics, Statistics


class HealthState(TextEnum):
    MOVING = "moving"
    IDLE = "idle"
    WAITING = "waiting"
    STALLED = "stalled"
    SILENT = "silent"


_FAILED: Final = (HealthState.STALLED, HealthState.SILENT)
_AWAY: Final = (ConnectionState.CONNECTING, ConnectionState.WAITING)


@dataclass(frozen=True, slots=True)
class FlowHealth:
    state: HealthState
    still_s: float
    """For how many seconds nothing has moved."""
    node: str | None = None
    """The node that the flow waits for."""
    reason: str = ""

    @property
    def is_healthy(self) -> bool:
        return self.state not in _FAILED


class HealthCheck:
    """Compares the statistics of a flow with those of the last check."""

    def __init__(
        self,
        stall_s: float,
        max_silence_s: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stall_s = stall_s
        self._max_silence_s = max_silence_s
        self._clock = clock
        self._lock = threading.Lock()
        self._counts: tuple[int, ...] = ()
        self._produced = 0
        self._moved_s = self._sent_s = clock()

    def check(self, statistics: Statistics) -> FlowHealth:
        """From any thread."""
        with self._lock:
            return self._check(statistics)

    def _check(self, statistics: Statistics) -> FlowHealth:
        now_s, counts = self._clock(), _counts(statistics)
        has_moved = counts != self._counts
        if has_moved:
            self._counts, self._moved_s = counts, now_s
        if statistics.produced != self._produced:
            self._produced, self._sent_s = statistics.produced, now_s
        still_s = now_s - self._moved_s
        if (away := _without_connection(statistics)) is not None and not has_moved:
            return FlowHealth(HealthState.WAITING, still_s, *away)
        if self._max_silence_s is not None and now_s - self._sent_s >= self._max_silence_s:
            reason = f"the sources have sent nothing for {now_s - self._sent_s:.0f} s"
            return FlowHealth(HealthState.SILENT, still_s, _source(statistics), reason)
        if has_moved:
            return FlowHealth(HealthState.MOVING, 0.0)
        node = _holder(statistics)
        if node is None:
            return FlowHealth(HealthState.IDLE, still_s)
        if still_s < self._stall_s:
            return FlowHealth(HealthState.MOVING, still_s, node)
        reason = f"node `{node}` has moved no element for {still_s:.0f} s"
        return FlowHealth(HealthState.STALLED, still_s, node, reason)


def _counts(statistics: Statistics) -> tuple[int, ...]:
    """Everything that changes when an element moves."""
    nodes = statistics.nodes.values()
    moved = [count for node in nodes for count in (node.received, node.emitted, _concluded(node))]
    tries = [count for node in nodes for count in (node.errors, node.retried)]
    edges = [count for edge in statistics.edges for count in (edge.entered, edge.taken)]
    return (*moved, *tries, *edges)


def _concluded(node: NodeStatistics) -> int:
    return node.passed + node.filtered + node.failed + node.dead_lettered + node.absorbed


def _holder(statistics: Statistics) -> str | None:
    """The node nearest to the sinks that has an element, or has one waiting before it."""
    waiting = {edge.target for edge in statistics.edges if edge.unread}
    for node in reversed(statistics.nodes.values()):
        if node.name in waiting:
            return node.name
        if node.role == Role.FILTER and node.held_bytes:
            # It holds elements back until the next one comes, which is its right.
            continue
        # `unread` is as old as the last turn; the other counters are not.
        if node.received > _concluded(node) or node.unread:
            return node.name
    return None


def _without_connection(statistics: Statistics) -> tuple[str, str] | None:
    """The name of a node that has no connection, and why."""
    for node in statistics.nodes.values():
        status = node.connection
        if status is not None and status.state in _AWAY:
            return node.name, f"node `{node.name}` has no connection to {status.address}"
    return None


def _source(statistics: Statistics) -> str | None:
    names = [node.name for node in statistics.nodes.values() if node.role == Role.SOURCE]
    return names[0] if len(names) == 1 else None
