"""What changed between the plan that runs and one that was linked anew."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from torvyn.errors import FlowError
from torvyn.link.plan import EdgePlan, NodePlan, Plan
from torvyn.reactor.swap.new_node import check_fit

_LIMITS: Final = ("max_memory_bytes", "call_timeout_s", "init_timeout_s", "fuel", "seed", "grants")
_LATER: Final = ("deadline_s", "priority", "runtime", "observability", "audit", "telemetry")
"""What only a new start of the flow applies."""


@dataclass(frozen=True, slots=True)
class NodeChange:
    node: NodePlan
    """As it is to be."""
    parts: tuple[str, ...]
    """`code`, `component`, `config`, `run mode`, `error policy` or `limits`."""
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
        return {"nodes": nodes, "graph": graph, "later": later, "lost": lost, "token": self.token}

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


def code_digests(plan: Plan) -> dict[str, str]:
    """The digest of the code of every node whose code is a file."""
    by_target: dict[str, str] = {}
    digests = {}
    for node in plan.nodes:
        target = node.component.target
        if node.component.kind not in ("project", "wasm"):
            continue
        if target not in by_target:
            by_target[target] = _digest(node)
        digests[node.name] = by_target[target]
    return digests


def _digest(node: NodePlan) -> str:
    """Of the `.wasm` file, or of the Python files beside the component: it may import them."""
    path, found = Path(node.component.target), hashlib.sha256()
    if node.component.kind == "project":
        path = Path(node.component.target.rpartition(":")[0]).parent
        files = sorted(path.rglob("*.py"))
    else:
        files = [path]
    for file in files:
        try:
            code = file.read_bytes()
        except OSError:
            continue
        found.update(f"{file.relative_to(path) if file != path else ''}\0{len(code)}\0".encode())
        found.update(code)
    return found.hexdigest()


def compare(
    old: Plan, new: Plan, old_code: Mapping[str, str], new_code: Mapping[str, str]
) -> PlanDifference:
    before = {node.name: node for node in old.nodes}
    changes = []
    for node in new.nodes:
        known = before.get(node.name)
        if known is None:
            continue
        is_new_code = old_code.get(node.name) != new_code.get(node.name)
        if parts := tuple(_parts(known, node, is_new_code)):
            changes.append(NodeChange(node, parts, _refusal(known, node)))
    later = tuple(name for name in _LATER if getattr(old, name) != getattr(new, name))
    return PlanDifference(tuple(changes), tuple(_graph(old, new)), later, _lost(old, new))


def _lost(old: Plan, new: Plan) -> tuple[str, ...] | None:
    """What the saved state of the old plan holds, or may hold, and the new one has no place for."""
    if old.checkpoint_s is None or new.checkpoint_s is None:
        return None
    if (old.name, old.state_dir) != (new.name, new.state_dir):
        return (f"the state in {old.state_dir}",)
    names = {node.name: node.component.name or node.component.target for node in new.nodes}
    nodes = [
        f"the state of node `{node.name}`"
        for node in old.nodes
        if names.get(node.name) != (node.component.name or node.component.target)
    ]
    ends = {_ends(edge)[:3] for edge in new.edges if edge.carrier != "memory"}
    edges = [
        f"what waits on the edge `{edge.source}:{edge.port}` to `{edge.target}`"
        for edge in old.edges
        if edge.carrier != "memory" and _ends(edge)[:3] not in ends
    ]
    return (*nodes, *edges)


def _parts(old: NodePlan, new: NodePlan, is_new_code: bool) -> Iterator[str]:
    if (old.component.kind, old.component.target) != (new.component.kind, new.component.target):
        yield "component"
    elif is_new_code:
        yield "code"
    if old.config != new.config:
        yield "config"
    if old.run != new.run:
        yield "run mode"
    if old.on_error != new.on_error:
        yield "error policy"
    if (old.role, old.ports, old.inputs, old.key) != (new.role, new.ports, new.inputs, new.key):
        yield "form"
    if any(getattr(old, name) != getattr(new, name) for name in _LIMITS):
        yield "limits"


def _refusal(old: NodePlan, new: NodePlan) -> FlowError | None:
    try:
        check_fit(old, new)
    except FlowError as error:
        return error
    return None


def _graph(old: Plan, new: Plan) -> Iterator[str]:
    names = [{node.name for node in plan.nodes} for plan in (old, new)]
    yield from (f"node `{name}` was added" for name in sorted(names[1] - names[0]))
    yield from (f"node `{name}` was removed" for name in sorted(names[0] - names[1]))
    before, after = ({_ends(edge): edge for edge in plan.edges} for plan in (old, new))
    for ends in sorted(before.keys() | after.keys()):
        name = f"edge `{ends[0]}:{ends[1]}` to `{ends[2]}`"
        if ends not in before:
            yield f"{name} was added"
        elif ends not in after:
            yield f"{name} was removed"
        elif replace(before[ends], location=None) != replace(after[ends], location=None):
            yield f"{name} has other options"


def _ends(edge: EdgePlan) -> tuple[str, str, str, str]:
    return edge.source, edge.port, edge.target, edge.input
