"""Segments: the parts of a flow that only durable edges connect.

The nodes of a segment are always in one process. A segment has the name of its first node.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from torvyn.link.plan import EdgePlan, NodePlan, Plan


@dataclass(frozen=True, slots=True)
class Segment:
    name: str
    nodes: tuple[NodePlan, ...]
    """In topological order."""
    inputs: tuple[EdgePlan, ...]
    """The durable edges that lead into it."""
    outputs: tuple[EdgePlan, ...]

    @property
    def replicas(self) -> int:
        """How many processes share its input."""
        places = [node.place for node in self.nodes if node.place is not None]
        return places[0].replicas if places else 1


def segments_of(plan: Plan) -> tuple[Segment, ...]:
    """The segments in the order of their first nodes."""
    root = {node.name: node.name for node in plan.nodes}
    for edge in plan.edges:
        if edge.carrier == "memory":
            old, new = root[edge.target], root[edge.source]
            root = {name: new if own == old else own for name, own in root.items()}
    parts: dict[str, list[NodePlan]] = {}
    for node in plan.nodes:
        parts.setdefault(root[node.name], []).append(node)
    durable = [edge for edge in plan.edges if edge.carrier != "memory"]
    return tuple(_segment(nodes, durable) for nodes in parts.values())


def _segment(nodes: list[NodePlan], durable: Iterable[EdgePlan]) -> Segment:
    names = {node.name for node in nodes}
    return Segment(
        nodes[0].name,
        tuple(nodes),
        tuple(edge for edge in durable if edge.target in names),
        tuple(edge for edge in durable if edge.source in names),
    )
