"""Statistics: what the native counters say, with names. A snapshot; counting goes on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any

from torvyn.link.plan import Plan

if TYPE_CHECKING:
    from torvyn.sandbox.component import GuestHealth


@dataclass(frozen=True, slots=True)
class NodeStatistics:
    name: str
    role: str
    unit: str | None
    received: int
    emitted: int
    filtered: int
    errors: int
    skipped: int
    retried: int
    dead_lettered: int
    discarded: int
    allocations: int
    releases: int
    live_bytes: int
    held_bytes: int
    peak_bytes: int
    peak_held_bytes: int
    """The most that waited inside the component: an unfinished sentence, held elements."""
    copies: dict[str, int]
    copied_bytes: int
    matches: int
    """What a guard has found."""
    exposed_chars: int
    """Characters of matches that had left a guard before it knew them for one."""
    mean_call_ns: float | None
    """Of the calls that were sampled; None before the first sample."""
    guest: GuestHealth | None = None
    """For nodes in the sandbox."""
    denied: dict[str, int] = field(default_factory=dict)
    """How often a guest was denied each kind of capability."""


@dataclass(frozen=True, slots=True)
class EdgeStatistics:
    source: str
    port: str
    target: str
    pushed: int
    popped: int
    dropped: int
    interrupted: int
    discarded: int
    depth: int
    bytes: int
    peak: int
    peak_bytes: int
    pressured: int


@dataclass(frozen=True, slots=True)
class Statistics:
    flow: str
    state: str
    elapsed_s: float
    turns: int
    nodes: dict[str, NodeStatistics]
    edges: tuple[EdgeStatistics, ...]

    @property
    def produced(self) -> int:
        """Elements that sources made."""
        return sum(node.emitted for node in self.nodes.values() if node.role == "source")

    @property
    def filtered(self) -> int:
        return sum(node.filtered for node in self.nodes.values())

    @property
    def emitted(self) -> int:
        """Elements that reached a sink or, in a flow without one, its caller."""
        sinks = [node for node in self.nodes.values() if node.role == "sink"]
        if sinks:
            return sum(node.received for node in sinks)
        return sum(edge.pushed for edge in self.edges if edge.target == "")

    @property
    def dropped(self) -> int:
        """Lost to full queues, interrupts and early ends; every one is counted somewhere."""
        edges = sum(edge.dropped + edge.interrupted + edge.discarded for edge in self.edges)
        return edges + sum(node.discarded for node in self.nodes.values())

    @property
    def errors(self) -> int:
        return sum(node.errors for node in self.nodes.values())

    @property
    def denied(self) -> int:
        """What guests asked for and were not granted."""
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
            "emitted": self.emitted,
            "dropped": self.dropped,
            "errors": self.errors,
            "denied": self.denied,
            "allocations": self.allocations,
            "releases": self.releases,
            "live": self.live,
            "copies": self.copies,
            "nodes": {name: asdict(node) for name, node in self.nodes.items()},
            "edges": [asdict(edge) for edge in self.edges],
        }


def from_native(
    plan: Plan,
    wiring: list[tuple[str, str, str]],
    raw: dict[str, Any],
    elapsed_s: float,
    guests: Mapping[str, GuestHealth],
    denied: Mapping[str, dict[str, int]],
) -> Statistics:
    """Names put to the numbers. `wiring` names the edges in native order; "" is the caller."""
    nodes = {}
    for node, counters in zip(plan.nodes, raw["nodes"], strict=True):
        sampled_ns, calls = counters.pop("sampled_ns"), counters.pop("sampled_calls")
        nodes[node.name] = NodeStatistics(
            name=node.name,
            role=node.role,
            unit=node.unit,
            mean_call_ns=sampled_ns / calls if calls else None,
            guest=guests.get(node.name),
            denied=denied.get(node.name, {}),
            **counters,
        )
    edges = tuple(
        EdgeStatistics(source=source, port=port, target=target, **counters)
        for (source, port, target), counters in zip(wiring, raw["edges"], strict=True)
    )
    return Statistics(plan.name, raw["state"], elapsed_s, raw["turns"], nodes, edges)


def nothing_yet(plan: Plan, state: str) -> Statistics:
    """The statistics of a flow that has not started."""
    zero = {each.name: 0 for each in fields(NodeStatistics) if each.type == "int"}
    nodes = {
        node.name: NodeStatistics(
            name=node.name,
            role=node.role,
            unit=node.unit,
            copies={},
            mean_call_ns=None,
            guest=None,
            denied={},
            **zero,
        )
        for node in plan.nodes
    }
    return Statistics(plan.name, state, 0.0, 0, nodes, ())
