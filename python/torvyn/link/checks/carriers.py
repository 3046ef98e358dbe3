"""What carries the edges of a flow: the options fit the carrier, and there is only one besides the
memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from torvyn.link.option_values import place_of
from torvyn.link.plan import EdgePlan, Plan
from torvyn.link.segments import segments_of
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
_WAIT: Final = {
    "memory": "the elements of this edge wait in memory",
    "disk": "the elements of this edge wait on the disk",
    "nats": "the elements of this edge wait on a broker",
}


def check_carrier(
    edge: EdgeRecord, path: str, options: Mapping[str, Any], problems: Problems
) -> None:
    """Reports options that would have no effect. `options`: those that the edge sets, by name."""
    carrier = options.get("carrier", EDGE.default("carrier"))
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
