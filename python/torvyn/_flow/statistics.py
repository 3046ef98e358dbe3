"""The statistics of a flow: a snapshot of the native counters, with names.

Two laws hold in every snapshot, however the flow ended:

    node: received = passed + filtered + failed + dead_lettered + absorbed + unread
    edge: entered = taken + dropped + unread

The outputs of a node are counted as `emitted`, once per element, and as `entered` on every edge
that the element is sent to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from torvyn._contract.enums import FlowState, Role
from torvyn._link.plan import NodePlan, Plan

if TYPE_CHECKING:
    from torvyn._durable.backend import LogStatistics
    from torvyn._io.connection import ConnectionStatus
    from torvyn._sandbox.component import GuestHealth


@dataclass(frozen=True, slots=True)
class NodeStatistics:
    name: str
    role: str
    unit: str | None
    received: int
    """Elements that the node has begun to work on."""
    passed: int
    """Elements that were sent on, changed or not; for a sink, those it accepted."""
    filtered: int
    """Elements that a verdict dropped."""
    failed: int
    """Elements whose call failed: they were skipped, or ended the flow."""
    dead_lettered: int
    absorbed: int
    """Elements that became part of an aggregator's state, or of a guard's held text."""
    unread: int
    """Elements that the node has begun and not finished: the current ones, or those at the end of
    the flow."""
    emitted: int
    """Elements sent to its edges, without dead letters."""
    ignored: int
    """Elements sent to a port that is declared as ignored."""
    errors: int
    """Calls that failed, including those that were retried."""
    retried: int
    allocations: int
    releases: int
    live_bytes: int
    held_bytes: int
    peak_bytes: int
    peak_held_bytes: int
    """The most that the component held: an unfinished sentence, held elements."""
    copies: dict[str, int]
    copied_bytes: int
    matches: int
    """Matches of a guard."""
    exposed_chars: int
    """Characters of matches that a guard had already sent on when it recognized the match."""
    mean_call_ns: float | None
    """The mean of the sampled calls; None before the first sample."""
    removed: int = 0
    """Matches that a guard removed from the text, besides filtered elements: a match may be a part
    of one element, or be split over several."""
    throttled_s: float = 0.0
    """For how long a source was delayed because its flow has a `cpu_share`."""
    cpu_ns: int | None = None
    """CPU time of its calls: measured on its own thread, else estimated from samples, which cannot
    be more than the time of the flow; None without samples."""
    max_memory_bytes: int = 0
    """Its budget, for `live_bytes`, `held_bytes` and the memory of a guest together."""
    guest: GuestHealth | None = None
    """For nodes in the sandbox."""
    denied: dict[str, int] = field(default_factory=dict)
    """How many requests of a guest were denied, by kind of capability."""
    connection: ConnectionStatus | None = None
    """For components that connect to something outside."""
    set_aside: int = 0
    """What it refused and the flow has stored: the dead letters without another target, and what a
    source read and could not make an element of."""
    counts: dict[str, int] = field(default_factory=dict)
    """What the component counts itself, by name: elements that came late, keys, evicted keys."""

    @property
    def guest_memory_bytes(self) -> int | None:
        """The linear memory of its guest; None if it is not in the sandbox."""
        return None if self.guest is None else self.guest.memory_bytes


@dataclass(frozen=True, slots=True)
class BrokerStatistics:
    """What a `nats` edge has on its broker, as it was some seconds ago, and what this process has
    seen of it."""

    messages: int | None
    """Batches that wait there, or are not deleted yet; None if the broker was not asked yet."""
    bytes: int | None
    limit_bytes: int
    expired: int
    """Elements that were deleted because they were older than `max_age`; they count as dropped."""
    corrupt: int
    """Elements of damaged messages; they count as dropped."""
    repeated: int
    """Elements that came twice, and were left out."""
    refusals: int
    """How often the broker had no room."""


@dataclass(frozen=True, slots=True)
class EdgeStatistics:
    source: str
    port: str
    target: str
    entered: int
    """Elements sent to the edge."""
    taken: int
    """Elements that the next node has begun to work on; at the exit, those the caller received."""
    dropped: int
    """Elements that the queue's policy or an interrupt dropped."""
    unread: int
    """Elements in the queue: now, or at the end of the flow."""
    depth: int
    bytes: int
    peak: int
    peak_bytes: int
    pressured: int
    carrier: str = "memory"
    stored: LogStatistics | BrokerStatistics | None = None
    """What a durable edge has stored, now or at the end of the flow."""
    restored: int = 0
    """Elements that entered without the node before it: an earlier run had stored them, or they
    were dead letters."""


@dataclass(frozen=True, slots=True)
class Statistics:
    flow: str
    state: FlowState
    elapsed_s: float
    turns: int
    nodes: dict[str, NodeStatistics]
    edges: tuple[EdgeStatistics, ...]

    @property
    def produced(self) -> int:
        """Elements that the sources emitted."""
        return sum(node.emitted for node in self.nodes.values() if node.role == Role.SOURCE)

    @property
    def filtered(self) -> int:
        return sum(node.filtered for node in self.nodes.values())

    @property
    def removed(self) -> int:
        """Matches that guards removed from the text."""
        return sum(node.removed for node in self.nodes.values())

    @property
    def emitted(self) -> int:
        """Elements that the sinks accepted, or the caller of a flow without a sink received."""
        accepted = sum(node.passed for node in self.nodes.values() if node.role == Role.SINK)
        return accepted + sum(edge.taken for edge in self.edges if edge.target == "")

    @property
    def set_aside(self) -> int:
        """What nodes refused and the flow has stored as dead letters."""
        return sum(node.set_aside for node in self.nodes.values())

    @property
    def dropped(self) -> int:
        """Elements that full queues and interrupts dropped."""
        return sum(edge.dropped for edge in self.edges)

    @property
    def unread(self) -> int:
        """Elements inside the flow: now, or at its end."""
        edges = sum(edge.unread for edge in self.edges)
        return edges + sum(node.unread for node in self.nodes.values())

    @property
    def cpu_ns(self) -> int:
        """CPU time of the calls of all nodes, as far as it is known."""
        return sum(node.cpu_ns or 0 for node in self.nodes.values())

    @property
    def bytes(self) -> int:
        """Bytes in the queues, and inside components."""
        return sum(edge.bytes for edge in self.edges) + sum(
            node.held_bytes for node in self.nodes.values()
        )

    @property
    def errors(self) -> int:
        return sum(node.errors for node in self.nodes.values())

    @property
    def denied(self) -> int:
        """Requests of guests that were denied."""
        return sum(sum(node.denied.values()) for node in self.nodes.values())

    @property
    def allocations(self) -> int:
        return sum(node.allocations for node in self.nodes.values())

    @property
    def releases(self) -> int:
        return sum(node.releases for node in self.nodes.values())

    @property
    def live(self) -> int:
        return self.allocations - self.releases

    @property
    def copies(self) -> int:
        return sum(sum(node.copies.values()) for node in self.nodes.values())

    def to_dict(self) -> dict[str, Any]:
        return {
            "flow": self.flow,
            "state": self.state,
            "elapsed_s": self.elapsed_s,
            "turns": self.turns,
            "produced": self.produced,
            "filtered": self.filtered,
            "removed": self.removed,
            "emitted": self.emitted,
            "dropped": self.dropped,
            "set_aside": self.set_aside,
            "unread": self.unread,
            "errors": self.errors,
            "denied": self.denied,
            "allocations": self.allocations,
            "releases": self.releases,
            "live": self.live,
            "copies": self.copies,
            "cpu_ns": self.cpu_ns,
            "bytes": self.bytes,
            "nodes": {name: asdict(node) for name, node in self.nodes.items()},
            "edges": [asdict(edge) for edge in self.edges],
        }


class _LazyStatistics(Statistics):
    """Statistics whose `nodes` and `edges` are built at the first access, because most runs end and
    nothing reads them."""

    __slots__ = ("_name",)

    _name: Callable[[], tuple[dict[str, NodeStatistics], tuple[EdgeStatistics, ...]]] | None

    def __getattr__(self, attribute: str) -> Any:
        """Called for attributes that are not set."""
        if attribute not in ("nodes", "edges"):
            raise AttributeError(attribute)
        name = self._name
        # None: another thread has built them.
        if name is not None:
            nodes, edges = name()
            object.__setattr__(self, "nodes", nodes)
            object.__setattr__(self, "edges", edges)
            object.__setattr__(self, "_name", None)
        return object.__getattribute__(self, attribute)

    def __repr__(self) -> str:
        return repr(Statistics(**{each.name: getattr(self, each.name) for each in fields(self)}))


def from_native(
    plan: Plan,
    wiring: list[tuple[str, str, str]],
    raw: dict[str, Any],
    elapsed_s: float,
    guests: Mapping[str, GuestHealth],
    denied: Mapping[str, dict[str, int]],
    connections: Mapping[str, ConnectionStatus],
    usage: Mapping[str, tuple[int | None, float]],
) -> Statistics:
    """Names the native counters. `wiring` has the edges in native order; "" is the caller. `usage`
    has the measured CPU time and the delay by node."""

    def name() -> tuple[dict[str, NodeStatistics], tuple[EdgeStatistics, ...]]:
        pairs = zip(plan.nodes, raw["nodes"], strict=True)
        nodes = {
            node.name: _node(node, counters, guests, denied, connections, usage)
            for node, counters in pairs
        }
        nodes = _within_time(nodes, elapsed_s, {name for name in nodes if usage[name][0] is None})
        edges = tuple(
            EdgeStatistics(source=source, port=port, target=target, **counters)
            for (source, port, target), counters in zip(wiring, raw["edges"], strict=True)
        )
        return nodes, edges

    result, put = object.__new__(_LazyStatistics), object.__setattr__
    put(result, "flow", plan.name)
    put(result, "state", raw["state"])
    put(result, "elapsed_s", elapsed_s)
    put(result, "turns", raw["turns"])
    put(result, "_name", name)
    return result


def _node(
    node: NodePlan,
    counters: Mapping[str, Any],
    guests: Mapping[str, GuestHealth],
    denied: Mapping[str, dict[str, int]],
    connections: Mapping[str, ConnectionStatus],
    usage: Mapping[str, tuple[int | None, float]],
) -> NodeStatistics:
    counts = dict(counters)
    sampled_ns, calls = counts.pop("sampled_ns"), counts.pop("sampled_calls")
    cpu_ns, throttled_s = usage[node.name]
    if cpu_ns is None and calls:
        elements = counts["emitted" if node.role == Role.SOURCE else "received"]
        cpu_ns = int(sampled_ns * max(elements, calls) / calls)
    return NodeStatistics(
        name=node.name,
        role=node.role,
        unit=node.unit,
        mean_call_ns=sampled_ns / calls if calls else None,
        throttled_s=throttled_s,
        cpu_ns=cpu_ns,
        max_memory_bytes=node.max_memory_bytes,
        guest=guests.get(node.name),
        denied=denied.get(node.name, {}),
        connection=connections.get(node.name),
        **counts,
    )


def _within_time(
    nodes: dict[str, NodeStatistics], elapsed_s: float, inline: set[str]
) -> dict[str, NodeStatistics]:
    """Bounds the estimates of CPU time. A sampled call that lost its processor meanwhile counts for
    many. A node makes one call at a time, and those that run inline share a thread."""
    limit_ns = int(elapsed_s * 1e9)
    inline_ns = sum(node.cpu_ns or 0 for name, node in nodes.items() if name in inline)
    scale = min(1.0, limit_ns / inline_ns) if inline_ns else 1.0
    for name, node in nodes.items():
        cpu_ns = int((node.cpu_ns or 0) * (scale if name in inline else 1))
        if cpu_ns != (node.cpu_ns or 0) or cpu_ns > limit_ns:
            nodes[name] = replace(node, cpu_ns=min(cpu_ns, limit_ns))
    return nodes


def empty_statistics(plan: Plan, state: FlowState) -> Statistics:
    """The statistics of a flow that has not started."""
    zero = {each.name: 0 for each in fields(NodeStatistics) if each.type == "int"}
    nodes = {
        node.name: NodeStatistics(
            name=node.name,
            role=node.role,
            unit=node.unit,
            copies={},
            mean_call_ns=None,
            cpu_ns=None,
            guest=None,
            denied={},
            connection=None,
            counts={},
            **zero,
        )
        for node in plan.nodes
    }
    return Statistics(plan.name, state, 0.0, 0, nodes, ())
