"""What changed between the plan that runs and one that was linked anew."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from torvyn._durable.checkpoint import component_name
from torvyn._flow.statistics import BrokerStatistics, EdgeStatistics
from torvyn._flow.swap_checks import check_fit
from torvyn._link.plan import NodePlan, Plan, TelemetryPlan
from torvyn.errors import FlowError

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
    """What a restart with the new graph would lose of the state; None if the flow saves none."""

    @property
    def token(self) -> str:
        """Says whether two differences are the same."""
        facts = [[*map(str, (change.node, change.parts))] for change in self.nodes]
        return hashlib.sha256(json.dumps([facts, self.graph]).encode()).hexdigest()[:16]

    def to_dict(self) -> dict[str, Any]:
        nodes = [change.to_dict() for change in self.nodes]
        later, graph = list(self.later), list(self.graph)
        lost = None if self.lost is None else list(self.lost)
        fields = {"nodes": nodes, "graph": graph, "later": later}
        return {**fields, "lost": lost, "token": self.token}

    def refuse_graph(self, flow: str) -> None:
        """Raises if the new graph cannot take over what the old one has."""
        if self.graph:
            refuse_graph(flow, self.graph, self.lost)


def refuse_graph(
    flow: str,
    graph: Sequence[str],
    lost: Sequence[str] | None,
    hint: str = "restart the flow, or undo the change",
) -> None:
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
        hint=hint,
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
    lost = _lost(old, new, before if stateful is None else stateful)
    return PlanDifference(tuple(changes), tuple(_graph(old, new)), later, lost)


def _graph(old: Plan, new: Plan) -> Iterator[str]:
    names = [{node.name for node in plan.nodes} for plan in (old, new)]
    before, after = (
        {(edge.source, edge.port, edge.target, edge.input): edge for edge in plan.edges}
        for plan in (old, new)
    )
    for name in sorted(names[1] - names[0]):
        yield f"node `{name}` was added"
    for name in sorted(names[0] - names[1]):
        yield f"node `{name}` was removed"
    for key in sorted(before.keys() | after.keys()):
        name = f"edge `{key[0]}:{key[1]}` to `{key[2]}`"
        if key not in before:
            yield f"{name} was added"
        elif key not in after:
            yield f"{name} was removed"
        elif before[key] != after[key]:
            yield f"{name} has other options"


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
    now = {node.name: component_name(node) for node in new.nodes}
    held = [node for node in old.nodes if node.name in stateful]
    gone = [node.name for node in held if now.get(node.name) != component_name(node)]
    return tuple(f"the state of node `{name}`" for name in gone)


def lost_by_restart(
    new: Plan, edges: Iterable[EdgeStatistics], *, asks_broker: bool
) -> tuple[str, ...]:
    """What waits on the durable edges that the new graph does not have. `asks_broker`: a stream
    that is not empty counts, too: an earlier run may have filled it. What is known of it is some
    seconds old."""
    kept = {(edge.source, edge.port, edge.target, edge.carrier) for edge in new.edges}
    found = []
    for edge in edges:
        ends = (edge.source, edge.port, edge.target)
        if edge.carrier == "memory" or (*ends, edge.carrier) in kept:
            continue
        name = f"the edge `{edge.source}:{edge.port}` to `{edge.target}`"
        if edge.unread:
            found.append(f"{edge.unread} elements that wait on {name}")
        elif asks_broker and _may_hold(edge.stored):
            found.append(f"what the broker may still have of {name}")
    return tuple(found)


def _may_hold(stored: object) -> bool:
    return isinstance(stored, BrokerStatistics) and stored.messages != 0


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
