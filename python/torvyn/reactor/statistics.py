"""Statistics: what the native counters say, with names. A snapshot; counting goes on.

Two laws hold in every snapshot, however the flow ended:

    node: received = passed + filtered + failed + dead_lettered + absorbed + unread
    edge: entered = taken + dropped + unread

What a node makes is counted on its output side: `emitted`, once for each element, and `entered` on
every edge that the element is sent to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any

from torvyn.contract.enums import FlowState, Role
from torvyn.link.plan import NodePlan, Plan

if TYPE_CHECKING:
    from torvyn.sandbox.component import GuestHealth


@dataclass(frozen=True, slots=True)
class NodeStatistics:
    name: str
    role: str
    unit: str | None
    received: int
    """Elements that the node has begun to work on."""
    passed: int
    """Elements that went on, in whatever form; for a sink, those it accepted."""
    filtered: int
    """Elements that were judged and dropped."""
    failed: int
    """Elements whose call failed and that no policy saved: skipped, or the end of the flow."""
    dead_lettered: int
    absorbed: int
    """Elements that an aggregator, or a guard that holds text back, took into its own state."""
    unread: int
    """Elements begun and not concluded: those it works on now, or had in hand when the flow
    ended."""
    emitted: int
    """Elements sent to its edges, dead letters not counted."""
    ignored: int
    """Elements sent to a port that is declared as ignored."""
    errors: int
    """Calls that failed, retried ones as well."""
    retried: int
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
    entered: int
    """Elements sent to the edge."""
    taken: int
    """Elements that the node behind it has begun to work on; at the exit, those the caller got."""
    dropped: int
    """Elements lost to the queue's policy, or to an interrupt."""
    unread: int
    """Elements that nobody took: those that wait now, or waited when the flow ended."""
    depth: int
    bytes: int
    peak: int
    peak_bytes: int
    pressured: int


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
        """Elements that sources made."""
        return sum(node.emitted for node in self.nodes.values() if node.role == Role.SOURCE)

    @property
    def filtered(self) -> int:
        return sum(node.filtered for node in self.nodes.values())

    @property
    def emitted(self) -> int:
        """Elements that a sink accepted, and those that the caller of a flow without one got."""
        accepted = sum(node.passed for node in self.nodes.values() if node.role == Role.SINK)
        return accepted + sum(edge.taken for edge in self.edges if edge.target == "")

    @property
    def dropped(self) -> int:
        """Lost to full queues and to interrupts."""
        return sum(edge.dropped for edge in self.edges)

    @property
    def unread(self) -> int:
        """Inside the flow: waiting while it runs, left behind once it is over."""
        edges = sum(edge.unread for edge in self.edges)
        return edges + sum(node.unread for node in self.nodes.values())

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
            "unread": self.unread,
            "errors": self.errors,
            "denied": self.denied,
            "allocations": self.allocations,
            "releases": self.releases,
            "live": self.live,
            "copies": self.copies,
            "nodes": {name: asdict(node) for name, node in self.nodes.items()},
            "edges": [asdict(edge) for edge in self.edges],
        }


class _UnnamedStatistics(Statistics):
    """Counters that were read and have no names yet: most runs end and nobody looks at them.

    `nodes` and `edges` are not set until they are read for the first time.
    """

    __slots__ = ("_name",)

    _name: Callable[[], tuple[dict[str, NodeStatistics], tuple[EdgeStatistics, ...]]] | None

    def __getattr__(self, attribute: str) -> Any:
        """Called for what is not set."""
        if attribute not in ("nodes", "edges"):
            raise AttributeError(attribute)
        name = self._name
        # None: another thread was here first.
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
) -> Statistics:
    """Names put to the numbers. `wiring` names the edges in native order; "" is the caller."""

    def name() -> tuple[dict[str, NodeStatistics], tuple[EdgeStatistics, ...]]:
        pairs = zip(plan.nodes, raw["nodes"], strict=True)
        nodes = {node.name: _node(node, counters, guests, denied) for node, counters in pairs}
        edges = tuple(
            EdgeStatistics(source=source, port=port, target=target, **counters)
            for (source, port, target), counters in zip(wiring, raw["edges"], strict=True)
        )
        return nodes, edges

    made, put = object.__new__(_UnnamedStatistics), object.__setattr__
    put(made, "flow", plan.name)
    put(made, "state", raw["state"])
    put(made, "elapsed_s", elapsed_s)
    put(made, "turns", raw["turns"])
    put(made, "_name", name)
    return made


def _node(
    node: NodePlan,
    counters: Mapping[str, Any],
    guests: Mapping[str, GuestHealth],
    denied: Mapping[str, dict[str, int]],
) -> NodeStatistics:
    counts = dict(counters)
    sampled_ns, calls = counts.pop("sampled_ns"), counts.pop("sampled_calls")
    return NodeStatistics(
        name=node.name,
        role=node.role,
        unit=node.unit,
        mean_call_ns=sampled_ns / calls if calls else None,
        guest=guests.get(node.name),
        denied=denied.get(node.name, {}),
        **counts,
    )


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
            guest=None,
            denied={},
            **zero,
        )
        for node in plan.nodes
    }
    return Statistics(plan.name, state, 0.0, 0, nodes, ())
