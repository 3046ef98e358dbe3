"""The rules for a flow as a whole: what carries its edges, its places, priorities and budgets.

The memory that a flow may use is a sum of upper bounds, the budgets of its nodes and the capacities
of its queues, so a flow usually uses far less. What it must not be is more than there is: then the
kernel ends the process, not the node that used too much.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence, Set
from typing import Any, Final

from torvyn._contract.enums import Role
from torvyn._io import native_parts
from torvyn._link.plan import EdgePlan, NodePlan, Plan, Segment, segments_of
from torvyn._manifest.problems import Problems
from torvyn._manifest.records import EDGE, FLOW, EdgeRecord, Manifest
from torvyn.errors import Diagnostic, Location, quoted


def check_plan(plan: Plan, stateful: Set[str], location: Location, problems: Problems) -> None:
    """Adds a problem for every rule that a flow breaks as a whole. `stateful`: the nodes that keep
    state. `location` is that of the flow."""
    _check_places(plan, stateful, problems)
    _check_segment_cycles(plan, problems)
    _check_stored_once(plan, problems)
    _check_budgets(plan, location, problems)


_PLACE_CODE: Final = "link.bad-place"
_SEPARATE: Final = 'put `carrier = "nats"` on the edge between them'


def _check_places(plan: Plan, stateful: Set[str], problems: Problems) -> None:
    """Adds a problem for every `place` that cannot be met. `stateful`: nodes that keep state."""
    if all(node.place is None for node in plan.nodes):
        return
    for segment in segments_of(plan):
        placed = [node for node in segment.nodes if node.place is not None]
        for node in placed[1:]:
            if node.place != placed[0].place:
                message = (
                    f"`{placed[0].name}` and `{node.name}` run in one process, but have different "
                    "places"
                )
                problems.add(_PLACE_CODE, message, node.location, _SEPARATE)
        if placed and placed[0].place is not None and placed[0].place.replicas > 1:
            wrong = _wrong_replicas(segment, placed[0], stateful)
            if wrong is not None:
                problems.add(_PLACE_CODE, wrong[0], placed[0].location, wrong[1])


def _wrong_replicas(
    segment: Segment, placed: NodePlan, stateful: Set[str]
) -> tuple[str, str] | None:
    """The reason why the segment cannot have replicas, and a hint."""
    what = f"`{placed.name}` cannot have replicas: "
    sources = [node.name for node in segment.nodes if node.role == Role.SOURCE]
    if sources:
        reason = f"it runs in one process with the source {quoted(sources)}, which would run twice"
        return what + reason, 'put `carrier = "nats"` on the edge that leads to it'
    local = [edge for edge in segment.inputs if edge.carrier != "nats"]
    if local:
        reason = f"the edge from `{local[0].source}` is kept on the disk of one machine"
        return what + reason, 'set `carrier = "nats"` on it'
    keyless = [node.name for node in segment.nodes if node.key is None and node.name in stateful]
    if keyless:
        reason = f"`{keyless[0]}` keeps one state for all elements"
        return what + reason, f"set `key` on `{keyless[0]}`: each replica has its share of the keys"
    return _wrong_keys(segment, what)


def _wrong_keys(segment: Segment, what: str) -> tuple[str, str] | None:
    """Elements are shared by the key of the first node, so all states must have the same key."""
    keyed = [node for node in segment.nodes if node.key is not None]
    first = {edge.target for edge in segment.inputs}
    if keyed and any(node.key is None for node in segment.nodes if node.name in first):
        names = [node.name for node in segment.nodes if node.name in first and node.key is None]
        reason = f"its elements are shared out in front of `{names[0]}`, which has no `key`"
        hint = f'put `carrier = "nats"` on the edge that leads to `{keyed[0].name}`'
        return what + reason, hint
    for node in keyed[1:]:
        if node.key != keyed[0].key:
            reason = f"`{keyed[0].name}` and `{node.name}` have different keys"
            return what + reason, _SEPARATE
    return None


def _check_segment_cycles(plan: Plan, problems: Problems) -> None:
    """A segment reads nothing while the broker has no room for what it has sent: if that came back
    to it, it would wait for itself."""
    home = {node.name: segment.name for segment in segments_of(plan) for node in segment.nodes}
    ways = [edge for edge in plan.edges if edge.carrier == "nats"]
    while ways:
        entered = {home[edge.target] for edge in ways}
        left = {home[edge.source] for edge in ways}
        kept = [e for e in ways if home[e.source] in entered and home[e.target] in left]
        if len(kept) == len(ways):
            break
        ways = kept
    if ways:
        edge = ways[0]
        message = (
            f"what the edge from `{edge.source}` to `{edge.target}` carries over the broker comes "
            "back to the nodes that have sent it"
        )
        hint = 'set `carrier = "nats"` on all ways between them, or on none'
        problems.add("link.segment-cycle", message, edge.location, hint)


_KNOWS_LAST: Final = "torvyn.components.builtin.sink_sqlite:SQLite"
"""A component that remembers with `once` the last number only."""


def _check_stored_once(plan: Plan, problems: Problems) -> None:
    """`once` takes an element with a smaller number than the last one for one that is stored
    already. Behind a `live-first` edge that is the backlog, which would be lost."""
    for node in plan.nodes:
        if node.component.target != _KNOWS_LAST or not _is_once(node):
            continue
        edge = next((e for e in _numbering(node.name, plan) if e.order == "live-first"), None)
        if edge is not None:
            message = (
                f"`{node.name}` has `once`, and the edge from `{edge.source}` to `{edge.target}` "
                "delivers new elements before older ones: the older ones would not be stored"
            )
            hint = "remove `order` from the edge, or use a `key` instead of `once`"
            problems.add("link.bad-value", message, node.location or edge.location, hint)


def _is_once(node: NodePlan) -> bool:
    try:
        config = json.loads(node.config)
    except ValueError:
        return False
    return isinstance(config, dict) and config.get("once") is True


def _numbering(node: str, plan: Plan) -> list[EdgePlan]:
    """The edges that number what the node gets: the last ones on the way to it that survive."""
    found, ways, seen = [], [node], {node}
    while ways:
        target = ways.pop()
        for edge in plan.edges:
            if edge.target == target and edge.carrier != "memory":
                found.append(edge)
            elif edge.target == target and edge.source not in seen:
                seen.add(edge.source)
                ways.append(edge.source)
    return found


def _check_budgets(plan: Plan, location: Location, problems: Problems) -> None:
    """Adds what does not fit together. `location` is that of the flow."""
    _check_memory(plan, location, problems)
    if plan.cpu_share is None and all(node.cpu_share is None for node in plan.nodes):
        return
    if plan.observability == "off":
        message = f"flow `{plan.name}` has a `cpu_share`, but its CPU time is not measured"
        hint = 'set `level = "production"` in `[observability]`'
        problems.add("link.bad-value", message, location, hint)
    sources = [node for node in plan.nodes if node.role == Role.SOURCE]
    for node in sources:
        if node.component.kind == "wasm":
            message = f"source `{node.name}` is sandboxed, and cannot be slowed down by `cpu_share`"
            hint = "use a source in Python; a limit of the process is `CPUQuota` of its service"
            problems.add("link.bad-value", message, node.location or location, hint)


def _check_memory(plan: Plan, location: Location, problems: Problems) -> None:
    limit_bytes, total = plan.max_memory_bytes, allowed_bytes(plan)
    if limit_bytes is None or total <= limit_bytes:
        return
    message = (
        f"the nodes and queues of flow `{plan.name}` may use {total / MiB:.4g} MiB, more than its "
        f"`max_memory` of {limit_bytes / MiB:.4g} MiB"
    )
    hint = "set `max_memory` on its nodes, and `queue_bytes`, so that they fit"
    problems.add("link.over-budget", message, location, hint)


MiB: Final = 1024 * 1024
RUNTIME_BYTES: Final = 48 * MiB
"""The process without any flow: Python, the native core and the libraries of connections."""


def allowed_bytes(plan: Plan) -> int:
    """The most that the nodes and queues of a flow may use."""
    budgets = sum(node.max_memory_bytes for node in plan.nodes)
    return budgets + sum(_memory_bytes(edge) for edge in plan.edges)


def _memory_bytes(edge: EdgePlan) -> int:
    """An edge that leaves the process has a queue at each of its ends."""
    return edge.bytes if edge.carrier == "memory" else 2 * edge.bytes


def memory_warning(plans: Sequence[Plan], limit_bytes: int) -> Diagnostic | None:
    """A warning if the flows of a process may use more than a control group allows it."""
    total, count = sum(map(allowed_bytes, plans)), sum(len(plan.nodes) for plan in plans)
    if total + RUNTIME_BYTES <= limit_bytes:
        return None
    edges = [edge for plan in plans for edge in plan.edges]
    queues = sum(map(_memory_bytes, edges))
    which = f"flow `{plans[0].name}`" if len(plans) == 1 else f"the {len(plans)} flows"
    fitting = (limit_bytes - RUNTIME_BYTES - queues) // count // MiB
    message = (
        f"the {count} nodes and {len(edges)} queues of {which} may use "
        f"{total // MiB} MiB, and the process itself about {RUNTIME_BYTES // MiB} MiB, but its "
        f"control group allows {limit_bytes // MiB} MiB"
    )
    smaller = (
        f"set `max_memory_per_component` of `[runtime]` to {fitting}MiB or less"
        if fitting > 0
        else "give the process more memory"
    )
    hint = f"{smaller}, or set `max_memory` on the nodes that need little"
    return Diagnostic("link.memory-limit", message, None, hint, "warning")


_CARRIERS: Final[Mapping[str, tuple[str, ...]]] = {
    "max_bytes": ("disk", "nats"),
    "max_age": ("disk", "nats"),
    "order": ("disk",),
    "drain_rate": ("disk",),
    "max_waiting": ("nats",),
}
"""By option of an edge: the carriers that know it."""
_WAIT: Final = {
    "memory": "the elements of this edge wait in memory",
    "disk": "the elements of this edge wait on the disk",
    "nats": "the elements of this edge wait on a broker",
}


def check_carrier(
    edge: EdgeRecord, path: str, options: Mapping[str, Any], problems: Problems
) -> None:
    """Reports options that would have no effect. `options`: those that the edge sets.

    Raises `MissingError` if torvyn was built without the carrier.
    """
    carrier = options.get("carrier", EDGE.default("carrier"))
    if carrier != "memory":
        native_parts.require(carrier)
    for name in options:
        carriers = _CARRIERS.get(name, (carrier,))
        if carrier not in carriers:
            message = f"`{name}` has no effect: {_WAIT[carrier]}"
            hint = f'add `carrier = "{carriers[0]}"`, or remove `{name}`'
            problems.add("link.bad-value", message, edge.at(name, f"{path}.{name}"), hint)
    if carrier == "nats" and options.get("backpressure", "block") != "block":
        message = 'an edge with `carrier = "nats"` drops nothing: when it is full, the flow waits'
        location = edge.at("backpressure", f"{path}.backpressure")
        problems.add("link.bad-value", message, location, "remove `backpressure` from this edge")


def check_one_carrier(edges: Sequence[EdgePlan], problems: Problems) -> None:
    """A commit covers a whole segment, and only one store can make it durable at once."""
    first = next((edge for edge in edges if edge.carrier != "memory"), None)
    for edge in edges:
        if first is not None and edge.carrier not in ("memory", first.carrier):
            message = (
                f"the edge from `{edge.source}` to `{edge.target}` is carried by `{edge.carrier}`, "
                f"and the one from `{first.source}` to `{first.target}` by `{first.carrier}`: a "
                "flow saves its positions and states in one place"
            )
            hint = (
                "use one carrier for both, or split the flow in two: the `nats` sink and source "
                "connect them"
            )
            problems.add("link.mixed-carriers", message, edge.location, hint)
            return


def check_priorities(manifest: Manifest, problems: Problems) -> None:
    """A flow that is alone has all workers to itself; flows that are equal have equal shares."""
    normal = FLOW.default("priority")
    flows = [*manifest.flows.values()]
    given = {flow.priority or normal for flow in flows}
    if len(given) != 1 or normal in given or manifest.broken_flows:
        return
    first = flows[0]
    if len(flows) == 1:
        message = f"the priority of flow `{first.name}` has no effect: the manifest has no other"
    else:
        message = f"all flows have the priority `{first.priority}`, so it has no effect"
    hint = "leave it out: priorities are shares among the flows that run in one process"
    problems.warn("link.priority-unused", message, first.at("priority"), hint)
