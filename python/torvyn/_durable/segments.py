"""A Plan whose durable edges end in nodes of their own, and the ends of such edges as components.

The native core sees a sink that stores and a source that reads back. Segments are the parts of the
flow that only such edges connect.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import quote

from torvyn._contract.enums import Role
from torvyn._contract.roles import Sink, Source
from torvyn._link.plan import ComponentRef, EdgePlan, ErrorPolicy, NodePlan, Plan
from torvyn.errors import FlowError

if TYPE_CHECKING:
    from torvyn._native import EdgeLog


class EdgeWriter(Sink):
    """Encodes what it accepts; the carrier makes it durable."""

    log: EdgeLog | None = None

    def native_stage(self, config: str) -> tuple[str, dict[str, Any]]:
        return "log-writer", {"log": self.log}


class EdgeReader(Source):
    """Emits what the carrier supplies, in order or newest first."""

    log: EdgeLog | None = None
    rate: float = 0.0
    by_checkpoint = False

    def native_stage(self, config: str) -> tuple[str, dict[str, Any]]:
        parameters = {"log": self.log, "rate": self.rate, "by_checkpoint": self.by_checkpoint}
        return "log-reader", parameters


Name = TypeVar("Name")
OUTPUT: Final = "output"
_UNLIMITED: Final = 2**62
QUEUE_SHARE: Final = 32
"""The queue behind a log has this part of its bytes at most."""


@dataclass(frozen=True, slots=True)
class DurableEdge:
    log: str
    """The name of its log in the store, which stays the same from run to run."""
    edge: EdgePlan
    writer: str
    reader: str


@dataclass(frozen=True, slots=True)
class WiredPlan:
    plan: Plan
    edges: tuple[DurableEdge, ...]
    segment_of: tuple[int, ...]
    """The segment of every node of `plan`."""
    segments: tuple[str, ...]
    """The name of every segment: its first node."""

    def index(self, node: str) -> int:
        return next(at for at, each in enumerate(self.plan.nodes) if each.name == node)

    def segment(self, node: str) -> int:
        return self.segment_of[self.index(node)]


def wire(plan: Plan) -> WiredPlan:
    """Puts two nodes in the place of every durable edge."""
    nodes: list[NodePlan] = []
    durable = [edge for edge in plan.edges if edge.carrier != "memory"]
    cut = [_cut(edge) for edge in durable]
    for node in plan.nodes:
        nodes.append(node)
        for ends in cut:
            if ends.edge.source == node.name:
                nodes.append(_node(ends.writer, Role.SINK, EdgeWriter(), ()))
                nodes.append(_node(ends.reader, Role.SOURCE, EdgeReader(), (OUTPUT,)))
    edges = [edge for edge in plan.edges if edge.carrier == "memory"]
    for ends in cut:
        # The limits of the edge are those of its log; in front of it a plain queue suffices.
        plain = replace(ends.edge, carrier="memory", backpressure="block", max_age_s=None)
        edges.append(replace(plain, target=ends.writer))
        edges.append(_behind(ends, plain))
    wired = replace(plan, nodes=tuple(nodes), edges=tuple(edges))
    segment_of, names = _segments(wired)
    return WiredPlan(wired, tuple(cut), segment_of, names)


def restrict(wired: WiredPlan, names: Set[str]) -> WiredPlan:
    """The part with these nodes of the author, and the ends of durable edges beside them."""
    ends = {ends.writer for ends in wired.edges if ends.edge.source in names}
    ends |= {ends.reader for ends in wired.edges if ends.edge.target in names}
    kept = names | ends
    pairs = zip(wired.plan.nodes, wired.segment_of, strict=True)
    numbers = [number for node, number in pairs if node.name in kept]
    order = list(_unique(numbers))
    edges = [ends for ends in wired.edges if ends.writer in kept or ends.reader in kept]
    return WiredPlan(
        wired.plan.part(kept),
        tuple(edges),
        tuple(order.index(number) for number in numbers),
        tuple(wired.segments[number] for number in order),
    )


def _cut(edge: EdgePlan) -> DurableEdge:
    log = f"{edge.source}:{edge.port}->{edge.target}"
    return DurableEdge(log, edge, f"{log} (writer)", f"{log} (reader)")


def _behind(ends: DurableEdge, plain: EdgePlan) -> EdgePlan:
    """The queue behind the log. What is in it is not dropped to make room, so it is small beside
    the log; what has become too old in it is dropped."""
    edge = ends.edge
    most_bytes = min(edge.bytes, edge.max_bytes // QUEUE_SHARE)
    behind = replace(plain, source=ends.reader, port=OUTPUT, bytes=most_bytes)
    # The clock of another machine says little about an age.
    return replace(behind, max_age_s=edge.max_age_s) if edge.carrier == "disk" else behind


def _node(name: str, role: Role, component: object, ports: tuple[str, ...]) -> NodePlan:
    return NodePlan(
        name=name,
        role=role,
        component=ComponentRef("carrier", name, "", instance=component),
        config="",
        run="inline",
        unit=None,
        ports=ports,
        # An element that cannot be stored is counted; it does not end the flow.
        on_error=ErrorPolicy("skip"),
        max_memory_bytes=_UNLIMITED,
        call_timeout_s=5.0,
        init_timeout_s=None,
    )


def _segments(plan: Plan) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """The connected parts of the graph, numbered by their first nodes."""
    part = {node.name: node.name for node in plan.nodes}

    def root(name: str) -> str:
        while part[name] != name:
            name = part[name]
        return name

    for edge in plan.edges:
        part[root(edge.target)] = root(edge.source)
    names = list(_unique(root(node.name) for node in plan.nodes))
    numbers = {name: number for number, name in enumerate(names)}
    return tuple(numbers[root(node.name)] for node in plan.nodes), tuple(names)


def _unique(names: Iterable[Name]) -> Iterable[Name]:
    return dict.fromkeys(names)


def state_path(plan: Plan) -> Path:
    """The database of a flow. Its folder is the flow's own."""
    return Path(plan.state_dir, quote(plan.name, safe=""), "flow.db")


def shape_changed(flow: str, differences: Sequence[str]) -> FlowError:
    listing = "\n".join(f"  - {each}" for each in differences)
    return FlowError(
        "durable.shape-changed",
        f"flow `{flow}` does not fit its saved state:\n{listing}",
        hint="to keep it, undo the change and run the flow until nothing waits; to discard the "
        "saved state and what is stored, use `--fresh`",
    )
