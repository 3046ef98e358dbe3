"""A Plan to the groups that a cluster runs: what each needs, and what carries each edge.

Pure data. A group is a segment of the flow: nodes that memory edges join stay in one process.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from torvyn._contract.units import render_size
from torvyn._link.plan import EdgePlan, PlacePlan, Plan, Segment, columns, segments_of
from torvyn.errors import LinkError


@dataclass(frozen=True, slots=True)
class Group:
    """Nodes that share a process, on whichever machine has room for them."""

    name: str
    nodes: tuple[str, ...]
    needs: PlacePlan
    """What each replica needs."""

    @property
    def replicas(self) -> int:
        return self.needs.replicas


@dataclass(frozen=True, slots=True)
class PlacedEdge:
    edge: EdgePlan
    source: str
    """The group that writes it."""
    target: str
    """The group that reads it."""

    @property
    def is_inside(self) -> bool:
        return self.edge.carrier == "memory"


@dataclass(frozen=True, slots=True)
class Placement:
    """The groups of a flow, in the order of their first nodes."""

    plan: Plan
    groups: tuple[Group, ...]
    edges: tuple[PlacedEdge, ...]

    @property
    def replicas(self) -> int:
        """The processes of all groups."""
        return sum(group.replicas for group in self.groups)

    def group(self, name: str) -> Group:
        return next(group for group in self.groups if group.name == name)

    def to_dict(self) -> dict[str, Any]:
        """The placement as JSON-able data."""
        return {
            "flow": self.plan.name,
            "groups": [
                {"name": group.name, "nodes": list(group.nodes), **asdict(group.needs)}
                for group in self.groups
            ],
            "edges": [_edge_fields(edge) for edge in self.edges],
        }

    def render(self, target: str) -> str:
        """The placement as text for people."""
        counts = f"{_count(len(self.groups), 'group')}, {_count(self.replicas, 'process', 'es')}"
        lines = [f"flow {self.plan.name} on {target}: {counts}", "", "groups"]
        lines += columns([_group_row(group) for group in self.groups])
        lines += ["", "edges", *columns([_edge_row(edge) for edge in self.edges])]
        cluster = self.plan.cluster
        if cluster is not None and cluster.nats:
            lines += ["", "broker", f"  namespace  {cluster.namespace or 'none'}"]
        return "\n".join(lines) + "\n"


def place(plan: Plan) -> Placement:
    """The groups of a flow; raises if one of its edges needs the disk of one machine."""
    for edge in plan.edges:
        if edge.carrier == "disk":
            raise LinkError(
                "cluster.local-edge",
                f"the edge from `{edge.source}` to `{edge.target}` is kept on the disk of one "
                "machine, and its ends may run on two",
                location=edge.location,
                hint='set `carrier = "nats"` on it',
            )
    segments = segments_of(plan)
    home = {node.name: segment.name for segment in segments for node in segment.nodes}
    edges = tuple(PlacedEdge(edge, home[edge.source], home[edge.target]) for edge in plan.edges)
    return Placement(plan, tuple(_group(segment) for segment in segments), edges)


def _group(segment: Segment) -> Group:
    needs = next((node.place for node in segment.nodes if node.place is not None), PlacePlan())
    return Group(segment.name, tuple(node.name for node in segment.nodes), needs)


def _edge_fields(placed: PlacedEdge) -> dict[str, Any]:
    edge = placed.edge
    fields = {
        "from": f"{edge.source}:{edge.port}",
        "to": f"{edge.target}:{edge.input}",
        "carrier": edge.carrier,
        "groups": [placed.source, placed.target],
    }
    if placed.is_inside:
        return {**fields, "queue_depth": edge.depth, "queue_bytes": edge.bytes}
    return {**fields, "max_waiting": edge.max_waiting, "max_bytes": edge.max_bytes}


def _group_row(group: Group) -> tuple[str, ...]:
    needs = group.needs
    parts = [f"{needs.cpus:g} CPU" + ("" if needs.cpus == 1 else "s")]
    if needs.gpus:
        parts.append(f"{needs.gpus:g} GPU" + ("" if needs.gpus == 1 else "s"))
    if needs.memory is not None:
        parts.append(render_size(needs.memory))
    parts += [f"{amount:g} {name}" for name, amount in needs.resources.items()]
    return (group.name, _count(needs.replicas, "replica"), ", ".join(parts), " ".join(group.nodes))


def _edge_row(placed: PlacedEdge) -> tuple[str, ...]:
    edge = placed.edge
    target = edge.target if edge.input == "input" else f"{edge.target}:{edge.input}"
    where = f"memory of {placed.source}" if placed.is_inside else edge.carrier
    bound = f"{edge.depth} elements, {render_size(edge.bytes)}"
    if not placed.is_inside:
        bound = f"{edge.max_waiting} batches per key, {render_size(edge.max_bytes)}"
    return (f"{edge.source}:{edge.port}", "->", target, where, bound)


def _count(number: int, word: str, ending: str = "s") -> str:
    return f"{number} {word}{'' if number == 1 else ending}"
