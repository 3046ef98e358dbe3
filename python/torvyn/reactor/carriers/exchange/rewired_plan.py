"""The wired plan of a running flow whose graph changes: what stays, what joins, what leaves.

Nodes, edges and segments that stay keep their numbers, because the native core and the components
know them by these. New ones get the numbers that follow; what has left keeps its own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from torvyn._link.plan import EdgePlan, NodePlan, Plan
from torvyn.reactor.carriers.wired_plan import GONE, DurableEdge, WiredPlan, wire


@dataclass(frozen=True, slots=True)
class NumberedEdge:
    """An edge with numbers for names, as the native core takes it."""

    number: int
    source: int
    port: int
    target: int
    input: int
    plan: EdgePlan


@dataclass(frozen=True, slots=True)
class Rewiring:
    """What becomes of a running flow."""

    old: WiredPlan
    new: WiredPlan
    """With all nodes that the flow has had, in the order of their numbers."""
    joining: tuple[NodePlan, ...]
    leaving: tuple[int, ...]
    staying: tuple[int, ...]
    """The nodes of the changed segments that stay."""
    old_segments: frozenset[int]
    """The segments that must come to rest."""
    new_segments: frozenset[int]
    edges: tuple[NumberedEdge, ...]
    """All edges of the changed segments."""
    new_edges: tuple[EdgePlan, ...]
    """Those that the flow has not had, in the order of their numbers."""
    order: tuple[int, ...]
    """All nodes that run afterwards, from the sources down."""

    @property
    def successors(self) -> list[tuple[int, int]]:
        """Nodes that leave, and those that come in their places."""
        first = len(self.old.plan.nodes)
        new = {node.name: first + at for at, node in enumerate(self.joining)}
        names = {at: self.old.plan.nodes[at].name for at in self.leaving}
        return [(at, new[name]) for at, name in names.items() if name in new]

    @property
    def gone_edges(self) -> list[DurableEdge]:
        logs = {edge.log for edge in self.new.edges}
        return [edge for edge in self.old.edges if edge.log not in logs]

    @property
    def added_edges(self) -> list[DurableEdge]:
        logs = {edge.log for edge in self.old.edges}
        return [edge for edge in self.new.edges if edge.log not in logs]


def changed_segments(
    old: WiredPlan, new: WiredPlan, replaced: Collection[str]
) -> tuple[set[int], set[int]]:
    """The segments of both plans whose nodes or edges are not the same in the other one."""
    before, after = (_parts(each) for each in (old, new))
    same = {part for part in before.keys() & after.keys() if not part[0] & set(replaced)}
    return (
        {at for part, at in before.items() if part not in same},
        {at for part, at in after.items() if part not in same},
    )


def _parts(wired: WiredPlan) -> dict[tuple[frozenset[str], frozenset[EdgePlan]], int]:
    """The nodes and edges of each segment."""
    found = {}
    for segment in sorted(set(wired.segment_of) - {GONE}):
        pairs = zip(wired.plan.nodes, wired.segment_of, strict=True)
        names = frozenset(node.name for node, of in pairs if of == segment)
        edges = frozenset(edge for edge in wired.plan.edges if edge.source in names)
        found[names, edges] = segment
    return found


def rewire(
    old: WiredPlan,
    plan: Plan,
    replaced: Collection[str],
    numbers: Mapping[EdgePlan, int],
    is_other: Callable[[str, WiredPlan], bool],
) -> Rewiring:
    """`replaced`: the nodes in both plans whose components change. `numbers`: the edges that the
    flow has had. `is_other` tells whether an end of a durable edge, by its name, must be made anew
    for the new plan."""
    fresh = wire(plan)
    old_changed, fresh_changed = changed_segments(old, fresh, replaced)
    live = {old.plan.nodes[at].name: at for at, of in enumerate(old.segment_of) if of != GONE}
    names = [node.name for node in fresh.plan.nodes]
    ends = {name for edge in fresh.edges for name in (edge.writer, edge.reader)}
    inside = {name for name in names if fresh.segment(name) in fresh_changed}
    left = {
        name
        for name, at in live.items()
        if old.segment_of[at] in old_changed
        and (name not in names or name in replaced or (name in ends and is_other(name, fresh)))
    }
    joining = [
        node for node in fresh.plan.nodes if node.name not in live or node.name in left & {*names}
    ]
    first = len(old.plan.nodes)
    slots = {name: at for name, at in live.items() if name not in left}
    slots |= {node.name: first + at for at, node in enumerate(joining)}
    new = _number(old, fresh, fresh_changed, slots, joining)
    edges, new_edges = _edges(fresh, inside, slots, numbers)
    return Rewiring(
        old,
        new,
        tuple(joining),
        tuple(sorted(live[name] for name in left)),
        tuple(sorted(slots[name] for name in inside if slots[name] < first)),
        frozenset(old_changed),
        frozenset(new.segment(name) for name in inside),
        tuple(edges),
        tuple(new_edges),
        tuple(slots[name] for name in names),
    )


def _number(
    old: WiredPlan,
    fresh: WiredPlan,
    fresh_changed: Collection[int],
    slots: Mapping[str, int],
    joining: Sequence[NodePlan],
) -> WiredPlan:
    """The new plan with the numbers of the old one. A segment is known by its name."""
    segments = [*old.segments]
    segments += [name for name in fresh.segments if name not in old.segments]
    nodes = [*old.plan.nodes, *joining]
    segment_of = [GONE] * len(nodes)
    for name, at in slots.items():
        number = fresh.segment(name)
        is_same = number not in fresh_changed
        same = old.segment_of[at] if is_same else segments.index(fresh.segments[number])
        segment_of[at] = same
    plan = replace(fresh.plan, nodes=tuple(nodes))
    return WiredPlan(plan, fresh.edges, tuple(segment_of), tuple(segments))


def _edges(
    fresh: WiredPlan,
    inside: Collection[str],
    slots: Mapping[str, int],
    numbers: Mapping[EdgePlan, int],
) -> tuple[list[NumberedEdge], list[EdgePlan]]:
    edges: list[NumberedEdge] = []
    new: list[EdgePlan] = []
    for edge in fresh.plan.edges:
        if edge.source not in inside:
            continue
        number = numbers.get(edge)
        if number is None:
            number = len(numbers) + len(new)
            new.append(edge)
        source, target = fresh.plan.node(edge.source), fresh.plan.node(edge.target)
        port = source.ports.index(edge.port)
        named = target.inputs.index(edge.input) if edge.input in target.inputs else 0
        ends = (slots[edge.source], port, slots[edge.target], named)
        edges.append(NumberedEdge(number, *ends, edge))
    return edges, new
