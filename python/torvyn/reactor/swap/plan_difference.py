"""What changed between the plan that runs and one that was linked anew."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from torvyn._link.plan import NodePlan, Plan, TelemetryPlan
from torvyn.errors import FlowError
from torvyn.reactor.swap.new_node import check_fit
from torvyn.reactor.swap.segment_difference import (
    SegmentChange,
    compare_segments,
    ends,
    graph_changes,
)

_LIMITS: Final = ("max_memory_bytes", "call_timeout_s", "init_timeout_s", "fuel", "seed")
_LATER: Final = (
    "deadline_s",
    "priority",
    "runtime",
    "observability",
    "audit",
    "audit_file",
    "telemetry",
    "checkpoint_s",
    "state_dir",
    "cluster",
    "max_memory_bytes",
    "cpu_share",
)
"""What only a new start of the flow applies."""
_LATER_OF_NODES: Final = ("cpu_share", "max_keys", "place")


@dataclass(frozen=True, slots=True)
class NodeChange:
    node: NodePlan
    """As it is to be."""
    parts: tuple[str, ...]
    """`code`, `files`, `component`, `config`, `run mode`, `error policy` or `limits`."""
    refusal: FlowError | None = None
    """Why the node cannot change while the flow runs."""

    def to_dict(self) -> dict[str, Any]:
        reason = None if self.refusal is None else self.refusal.diagnostics[0].message
        return {"node": self.node.name, "changed": list(self.parts), "refused": reason}


@dataclass(frozen=True, slots=True)
class PlanDifference:
    nodes: tuple[NodeChange, ...]
    graph: tuple[str, ...]
    """Nodes and edges that were added, removed or changed, in words."""
    later: tuple[str, ...]
    """Settings that apply when the flow starts again."""
    lost: tuple[str, ...] | None = ()
    """What a new graph would lose of the saved state; None if the flow saves none."""
    segments: tuple[SegmentChange, ...] = ()
    """What becomes of each segment of a flow with a new graph."""

    @property
    def is_empty(self) -> bool:
        return not self.nodes and not self.graph

    @property
    def token(self) -> str:
        """Says whether two differences are the same."""
        facts = [[*map(str, (change.node, change.parts))] for change in self.nodes]
        return hashlib.sha256(json.dumps([facts, self.graph]).encode()).hexdigest()[:16]

    def to_dict(self) -> dict[str, Any]:
        nodes = [change.to_dict() for change in self.nodes]
        later, graph = list(self.later), list(self.graph)
        lost = None if self.lost is None else list(self.lost)
        segments = [each.to_dict() for each in self.segments]
        fields = {"nodes": nodes, "graph": graph, "segments": segments, "later": later}
        return {**fields, "lost": lost, "token": self.token}

    def refuse_graph(self, flow: str) -> None:
        """Raises if the new graph cannot take over what the old one has."""
        if self.graph:
            refuse_graph(flow, self.graph, self.lost)


def refuse_graph(flow: str, graph: Sequence[str], lost: Sequence[str] | None) -> None:
    if lost is not None and not lost:
        return
    listing = "; ".join(graph)
    if lost is None:
        what = "and it saves no state from which a new one could continue"
    else:
        what = f"and a new one would lose {' and '.join(lost)}"
    raise FlowError(
        "swap.graph-changed",
        f"the graph of flow `{flow}` has changed ({listing}), {what}",
        hint="restart the flow, or undo the change",
    )


def compare(
    old: Plan,
    new: Plan,
    content: Mapping[str, tuple[str, ...]],
    place_free: Callable[[str], str] = str,
    stateful: Collection[str] | None = None,
) -> PlanDifference:
    """`content`: the nodes whose files have another content: `code` or `files`. `place_free`
    removes the folder of the project from a text, if the two plans are from two folders.
    `stateful`: the nodes of the old plan that have a state; all of them if it is not known."""
    before = {node.name: node for node in old.nodes}
    changes = []
    for node in new.nodes:
        known = before.get(node.name)
        if known is None:
            continue
        if parts := tuple(_parts(known, node, content.get(node.name, ()), place_free)):
            changes.append(NodeChange(node, parts, _refusal(known, node)))
    later = tuple(_later(old, new, place_free))
    graph = tuple(line for line, _ in graph_changes(old, new))
    changed = {change.node.name: change.parts for change in changes}
    segments = compare_segments(old, new, changed) if graph and old.checkpoint_s else ()
    lost = _lost(old, new, before if stateful is None else stateful)
    return PlanDifference(tuple(changes), graph, later, lost, segments)


def _later(old: Plan, new: Plan, place_free: Callable[[str], str]) -> Iterator[str]:
    for name in _LATER:
        if _setting(old, name, place_free) != _setting(new, name, place_free):
            yield name
    before = {node.name: node for node in old.nodes}
    for node in new.nodes:
        known = before.get(node.name, node)
        for name in _LATER_OF_NODES:
            if getattr(known, name) != getattr(node, name):
                yield f"nodes.{node.name}.{name}"


def _setting(plan: Plan, name: str, place_free: Callable[[str], str]) -> Any:
    value = getattr(plan, name)
    if isinstance(value, TelemetryPlan):
        return replace(value, folder=place_free(value.folder))
    return place_free(value) if isinstance(value, str) else value


def _lost(old: Plan, new: Plan, stateful: Collection[str]) -> tuple[str, ...] | None:
    """What the old flow holds and the new graph has no place for; None if it saves no state."""
    if old.checkpoint_s is None or new.checkpoint_s is None:
        return None
    if (old.name, old.state_dir) != (new.name, new.state_dir):
        return (f"the state in {old.state_dir}",)
    names = {node.name for node in new.nodes}
    gone = [node.name for node in old.nodes if node.name not in names and node.name in stateful]
    return tuple(f"the state of node `{name}`" for name in gone)


def lost_by_restart(old: Plan, new: Plan) -> tuple[str, ...]:
    """What a new flow could not take over from the store, beside the states of nodes."""
    kept = {ends(edge)[:3] for edge in new.edges if edge.carrier != "memory"}
    return tuple(
        f"what waits on the edge `{edge.source}:{edge.port}` to `{edge.target}`"
        for edge in old.edges
        if edge.carrier != "memory" and ends(edge)[:3] not in kept
    )


def _parts(
    old: NodePlan, new: NodePlan, content: tuple[str, ...], place_free: Callable[[str], str]
) -> Iterator[str]:
    refs = {(each.component.kind, place_free(each.component.target)) for each in (old, new)}
    if len(refs) > 1:
        yield "component"
    else:
        yield from content
    if place_free(old.config) != place_free(new.config):
        yield "config"
    if old.run != new.run:
        yield "run mode"
    if old.on_error != new.on_error:
        yield "error policy"
    if (old.role, old.ports, old.inputs, old.key) != (new.role, new.ports, new.inputs, new.key):
        yield "form"
    grants = (tuple(map(place_free, node.grants)) for node in (old, new))
    if len({*grants}) > 1 or any(getattr(old, name) != getattr(new, name) for name in _LIMITS):
        yield "limits"


def _refusal(old: NodePlan, new: NodePlan) -> FlowError | None:
    try:
        check_fit(old, new)
    except FlowError as error:
        return error
    return None
