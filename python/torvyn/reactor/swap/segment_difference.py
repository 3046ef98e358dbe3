"""What a new graph means for each segment of a running flow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from torvyn._link.plan import EdgePlan, Plan
from torvyn.reactor.carriers.exchange.rewired_plan import changed_segments
from torvyn.reactor.carriers.wired_plan import WiredPlan, wire

Outcome = Literal["unchanged", "swapped", "restarted", "removed"]


@dataclass(frozen=True, slots=True)
class SegmentChange:
    nodes: tuple[str, ...]
    outcome: Outcome
    reasons: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def compare_segments(
    old: Plan, new: Plan, parts: Mapping[str, Sequence[str]]
) -> tuple[SegmentChange, ...]:
    """`parts`: what has changed of the nodes that are in both plans."""
    before, after = wire(old), wire(new)
    changed_before, changed = changed_segments(before, after, ())
    lines = [*graph_changes(old, new)]
    known = {node.name for node in new.nodes}
    found = []
    for number in range(len(after.segments)):
        names = _nodes(after, number)
        reasons = [f"{name}: {', '.join(parts[name])}" for name in names if name in parts]
        if number in changed:
            reasons += [line for line, concerned in lines if {*names} & concerned]
        outcome: Outcome = "swapped" if reasons else "unchanged"
        found.append(SegmentChange(tuple(names), outcome, tuple(reasons)))
    for number in sorted(changed_before):
        if not known & {*(names := _nodes(before, number))}:
            found.append(SegmentChange(tuple(names), "removed", ("the new graph has none of it",)))
    return tuple(found)


def _nodes(wired: WiredPlan, segment: int) -> list[str]:
    """The nodes of a segment, as the author of the flow knows them."""
    pairs = zip(wired.plan.nodes, wired.segment_of, strict=True)
    return [node.name for node, of in pairs if of == segment and node.component.kind != "carrier"]


def graph_changes(old: Plan, new: Plan) -> Iterator[tuple[str, set[str]]]:
    """Nodes and edges that were added, removed or changed, in words, with the nodes concerned."""
    names = [{node.name for node in plan.nodes} for plan in (old, new)]
    before, after = ({ends(edge): edge for edge in plan.edges} for plan in (old, new))
    for name in sorted(names[1] - names[0]):
        yield f"node `{name}` was added", {name}
    for name in sorted(names[0] - names[1]):
        yield f"node `{name}` was removed", {name}
    for key in sorted(before.keys() | after.keys()):
        name = f"edge `{key[0]}:{key[1]}` to `{key[2]}`"
        if key not in before:
            yield f"{name} was added", {key[0], key[2]}
        elif key not in after:
            yield f"{name} was removed", {key[0], key[2]}
        elif before[key] != after[key]:
            yield f"{name} has other options", {key[0], key[2]}


def ends(edge: EdgePlan) -> tuple[str, str, str, str]:
    return edge.source, edge.port, edge.target, edge.input
