"""What carries the edges of a flow: the options fit the carrier, and there is only one besides the
memory."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from torvyn.link.option_values import place_of
from torvyn.link.plan import EdgePlan, NodePlan, Plan
from torvyn.link.segments import segments_of
from torvyn.machine import native_parts
from torvyn.manifest.problems import Problems
from torvyn.manifest.records import EdgeRecord
from torvyn.manifest.schema.tables import EDGE

_CARRIERS: Final[Mapping[str, tuple[str, ...]]] = {
    "max_bytes": ("disk", "nats"),
    "max_age": ("disk", "nats"),
    "order": ("disk",),
    "drain_rate": ("disk",),
    "max_waiting": ("nats",),
}
"""By option of an edge: the carriers that know it."""
_KNOWS_LAST: Final = "torvyn.components.builtin.sink_sqlite:SQLite"
"""A component that remembers with `once` the last number only."""
_WAIT: Final = {
    "memory": "the elements of this edge wait in memory",
    "disk": "the elements of this edge wait on the disk",
    "nats": "the elements of this edge wait on a broker",
}


def check_carrier(
    edge: EdgeRecord, path: str, options: Mapping[str, Any], problems: Problems
) -> None:
    """Reports options that would have no effect. `options`: those that the edge sets, by name.

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
            problems.add("link.bad-value", message, place_of(edge, name, f"{path}.{name}"), hint)
    if carrier == "nats" and options.get("backpressure", "block") != "block":
        message = 'an edge with `carrier = "nats"` drops nothing: when it is full, the flow waits'
        place = place_of(edge, "backpressure", f"{path}.backpressure")
        problems.add("link.bad-value", message, place, "remove `backpressure` from this edge")


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


def check_segment_cycles(plan: Plan, problems: Problems) -> None:
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


def check_stored_once(plan: Plan, problems: Problems) -> None:
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
