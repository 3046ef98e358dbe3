"""Whether a running flow works, judged by its statistics.

    moving    an element has moved since the last check
    idle      the flow is empty, and its sources wait for input
    waiting   nothing moves because a component has no connection, and says so
    stalled   a node has elements, and none of them has moved for too long
    silent    the sources have sent nothing for longer than `max_silence`

The last two are failures: a restart may help. It does not help against a network that is away, so a
component that reports a lost connection (`torvyn._io.connection`) is healthy, and so are the
nodes before it, which wait for it. A first attempt to connect that does not end is a failure.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from torvyn._contract.enums import Role, TextEnum
from torvyn._flow.statistics import NodeStatistics, Statistics
from torvyn._io.connection import ConnectionState


class HealthState(TextEnum):
    MOVING = "moving"
    IDLE = "idle"
    WAITING = "waiting"
    STALLED = "stalled"
    SILENT = "silent"


FAILED: Final = (HealthState.STALLED, HealthState.SILENT)
_AWAY: Final = (ConnectionState.WAITING, ConnectionState.REJECTED)


@dataclass(frozen=True, slots=True)
class FlowHealth:
    state: HealthState
    still_s: float
    """For how many seconds nothing has moved."""
    node: str | None = None
    """The node that the flow waits for."""
    reason: str = ""
    held_s: float = 0.0
    """For how long a node has had elements and moved none, though no connection is away: the
    longest."""

    @property
    def is_healthy(self) -> bool:
        return self.state not in FAILED


class HealthCheck:
    """Compares the statistics of a flow with those of earlier checks."""

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
        self._counts: dict[str, tuple[int, ...]] = {}
        self._moved_s: dict[str, float] = {}
        """When each node was last seen to have moved."""
        self._produced = 0
        self._sent_s = clock()

    def check(self, statistics: Statistics) -> FlowHealth:
        """From any thread."""
        with self._lock:
            return self._check(statistics, self._clock())

    def _check(self, statistics: Statistics, now_s: float) -> FlowHealth:
        has_moved = self._note_moves(statistics, now_s)
        if statistics.produced != self._produced:
            self._produced, self._sent_s = statistics.produced, now_s
        still_s = now_s - max(self._moved_s.values(), default=now_s)
        silent_s = now_s - self._sent_s
        nodes, holders = statistics.nodes.values(), _holders(statistics)
        away = [node for node in nodes if self._is_away(node, now_s)]
        due = [*holders, *(node for node in nodes if _is_starting(node))]
        stood_s = {node.name: now_s - self._moved_s[node.name] for node in due}
        excused = _with_those_before(away, statistics)
        held = {name: stood_s[name] for name in stood_s if name not in excused}
        held_s = max(held.values(), default=0.0)
        if held_s >= self._stall_s:
            return self._stalled(held, held_s)
        # The other nodes may move: a disk, or a queue that drops, takes what they send.
        waiting = [n for n in away if not has_moved or stood_s.get(n.name, 0.0) >= self._stall_s]
        if waiting:
            name, reason = waiting[0].name, _away_reason(waiting[0])
            return FlowHealth(HealthState.WAITING, still_s, name, reason, held_s)
        if self._max_silence_s is not None and silent_s >= self._max_silence_s:
            reason = f"the sources have sent nothing for {silent_s:.0f} s"
            return FlowHealth(HealthState.SILENT, still_s, _source(statistics), reason, held_s)
        if has_moved or holders:
            node = holders[0].name if holders else None
            return FlowHealth(HealthState.MOVING, still_s, node, held_s=held_s)
        return FlowHealth(HealthState.IDLE, still_s)

    def _stalled(self, held: Mapping[str, float], held_s: float) -> FlowHealth:
        """Names the first of them, because those before it wait for it."""
        name, still_s = next(each for each in held.items() if each[1] >= self._stall_s)
        reason = f"node `{name}` has moved no element for {still_s:.0f} s"
        return FlowHealth(HealthState.STALLED, still_s, name, reason, held_s)

    def _note_moves(self, statistics: Statistics, now_s: float) -> bool:
        """Whether an element has moved since the last check."""
        has_moved = False
        for name, node in statistics.nodes.items():
            counts = (node.received, node.emitted, _concluded(node), node.errors, node.retried)
            if self._counts.get(name) != counts:
                self._counts[name], self._moved_s[name] = counts, now_s
                has_moved = True
        return has_moved

    def _is_away(self, node: NodeStatistics, now_s: float) -> bool:
        if node.connection is None:
            return False
        if node.connection.state is ConnectionState.CONNECTING:
            return now_s - self._moved_s[node.name] < self._stall_s
        return node.connection.state in _AWAY


def _concluded(node: NodeStatistics) -> int:
    return node.passed + node.filtered + node.failed + node.dead_lettered + node.absorbed


def _holders(statistics: Statistics) -> list[NodeStatistics]:
    """The nodes that have an element, or have one waiting before them; those nearest to the sinks
    first, because they are what the others wait for."""
    waiting = {edge.target for edge in statistics.edges if edge.unread}
    nodes = reversed(statistics.nodes.values())
    return [node for node in nodes if node.name in waiting or _has_element(node)]


def _has_element(node: NodeStatistics) -> bool:
    if node.role == Role.FILTER and node.held_bytes:
        # It holds elements back until the next one comes, which is its right.
        return False
    # `unread` is as old as the last turn; the other counters are not.
    return node.received > _concluded(node) or node.unread > 0


def _is_starting(node: NodeStatistics) -> bool:
    """A source connects when the flow begins; a sink may wait for its first element."""
    state = None if node.connection is None else node.connection.state
    return node.role == Role.SOURCE and state is ConnectionState.CONNECTING


def _with_those_before(away: list[NodeStatistics], statistics: Statistics) -> set[str]:
    """Those that are away, and the nodes that cannot send because of them."""
    names = {node.name for node in away}
    while more := {edge.source for edge in statistics.edges if edge.target in names} - names:
        names |= more
    return names


def _away_reason(node: NodeStatistics) -> str:
    connection = node.connection
    if connection is not None and connection.state is ConnectionState.REJECTED:
        return f"{connection.address} rejects node `{node.name}`: {connection.reason}"
    address = "" if connection is None else connection.address
    return f"node `{node.name}` has no connection to {address}"


def _source(statistics: Statistics) -> str | None:
    names = [node.name for node in statistics.nodes.values() if node.role == Role.SOURCE]
    return names[0] if len(names) == 1 else None
