"""The metrics of pools, for Prometheus and for a collector."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from torvyn._observe.metrics import Kind, Metric, Point
from torvyn.transport.telemetry.histogram import render_labels

if TYPE_CHECKING:
    from torvyn.engine.pool.engine import Pool

_POOL: Final[dict[str, tuple[Kind, str]]] = {
    "waiting": ("gauge", "Requests that wait for a member of a pool."),
    "retries": ("sum", "Requests that were sent to another member before their first text."),
    "rejected": ("sum", "Requests that got no member in time."),
}
_MEMBER: Final[dict[str, tuple[Kind, str]]] = {
    "in_flight": ("gauge", "Requests that a member of a pool works on."),
    "first_text_s": ("gauge", "Time to the first text of a member, as a moving mean."),
}
_STATES: Final = ("up", "unknown", "busy", "draining", "half-open", "open", "down")


def pool_metrics(pools: Mapping[str, Pool]) -> Iterator[Metric]:
    """All of them; none without pools."""
    if pools:
        states = {flow: pool.to_dict() for flow, pool in pools.items()}
        yield from _of_pools(states)
        yield from _of_members(
            [
                ({"flow": flow, "member": member["name"]}, member)
                for flow, state in states.items()
                for member in state["members"]
            ]
        )


def _of_pools(states: Mapping[str, Any]) -> Iterator[Metric]:
    counts = [
        Point(
            [each["state"] for each in pool["members"]].count(name), {"flow": flow, "state": name}
        )
        for flow, pool in states.items()
        for name in _STATES
    ]
    yield Metric("engine_pool.members", "gauge", "{member}", "Members by state.", counts)
    for name, (kind, doc) in _POOL.items():
        points = [Point(state[name], {"flow": flow}) for flow, state in states.items()]
        yield Metric(f"engine_pool.{name}", kind, "{request}", doc, points)


def _of_members(members: Sequence[tuple[dict[str, str], Any]]) -> Iterator[Metric]:
    for name, (kind, doc) in _MEMBER.items():
        points = [Point(member[name], labels) for labels, member in members]
        unit = "s" if name.endswith("_s") else "{request}"
        yield Metric(f"engine_pool.{name}", kind, unit, doc, points)
    points = [
        Point(count, {**labels, "outcome": outcome})
        for labels, member in members
        for outcome, count in sorted(member["outcomes"].items())
    ]
    yield Metric("engine_pool.requests", "sum", "{request}", "Requests by outcome.", points)


def prometheus(metrics: Iterable[Metric], labels: Mapping[str, str]) -> Iterator[str]:
    """The same as lines; `labels` are those of every metric."""
    for metric in metrics:
        name = "torvyn_" + metric.name.replace(".", "_")
        if metric.unit == "s":
            name = name.removesuffix("_s") + "_seconds"
        if metric.kind == "sum":
            name += "_total"
        yield f"# HELP {name} {metric.doc}"
        yield f"# TYPE {name} {'counter' if metric.kind == 'sum' else 'gauge'}"
        for point in metric.points:
            yield f"{name}{render_labels({**point.attributes, **labels})} {point.value}"
