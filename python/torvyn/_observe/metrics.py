"""Metrics: what a collector returns, and the metrics of a flow and of the process.

Names are `family.figure`, after what they describe: `flow.*`, `component.*` (nodes), `stream.*`
(edges), `pool.*` (payloads), `capability.*` (what guests were denied) and `system.*` (the process).
Sums only grow while the flow runs.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from torvyn._io.resources import resident_bytes

if TYPE_CHECKING:
    from torvyn._flow.statistics import NodeStatistics, Statistics

Kind = Literal["sum", "gauge", "histogram"]
Collect = Callable[[], Iterable["Metric"]]
"""Called on the exporter's thread."""


@dataclass(frozen=True, slots=True)
class Histogram:
    """`counts` has one more entry than `bounds`: what is above the last bound."""

    bounds: Sequence[float]
    counts: Sequence[int]
    total: float


@dataclass(frozen=True, slots=True)
class Point:
    value: int | float | Histogram
    attributes: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Metric:
    name: str
    kind: Kind
    unit: str
    """By UCUM, as OpenTelemetry asks: `s`, `By`, or `{element}` for things that are counted."""
    doc: str
    points: list[Point] = field(default_factory=list)


_Row = tuple[str, Kind, str, str]
_FLOW: Final[tuple[_Row, ...]] = (
    ("produced", "sum", "{element}", "Elements that the sources emitted."),
    ("emitted", "sum", "{element}", "Elements that the sinks accepted."),
    ("filtered", "sum", "{element}", "Elements that a verdict dropped."),
    ("dropped", "sum", "{element}", "Elements that full queues and interrupts dropped."),
    ("errors", "sum", "{call}", "Calls that failed, including those that were retried."),
    ("unread", "gauge", "{element}", "Elements inside the flow."),
    ("turns", "sum", "{turn}", "Turns of the reactor."),
    ("elapsed_s", "gauge", "s", "The time since the flow started."),
)
_COMPONENT: Final[tuple[_Row, ...]] = (
    ("received", "sum", "{element}", "Elements that the node has begun to work on."),
    ("passed", "sum", "{element}", "Elements that were sent on, or accepted by a sink."),
    ("filtered", "sum", "{element}", "Elements that a verdict dropped."),
    ("failed", "sum", "{element}", "Elements whose call failed."),
    ("dead_lettered", "sum", "{element}", "Elements that were sent to the dead letters."),
    ("set_aside", "sum", "{element}", "Refused elements that the flow has stored."),
    ("absorbed", "sum", "{element}", "Elements that became part of a component's state."),
    ("emitted", "sum", "{element}", "Elements sent to the node's edges."),
    ("errors", "sum", "{call}", "Calls that failed, including those that were retried."),
    ("retried", "sum", "{call}", "Calls that were retried."),
    ("live_bytes", "gauge", "By", "Payloads that the node has allocated and not released."),
    ("held_bytes", "gauge", "By", "What the component holds back."),
    ("guest_memory_bytes", "gauge", "By", "Linear memory of the node's guest."),
    ("mean_call_ns", "gauge", "ns", "The mean duration of the sampled calls."),
    ("cpu_ns", "sum", "ns", "CPU time of the node's calls."),
)
_STREAM: Final[tuple[_Row, ...]] = (
    ("entered", "sum", "{element}", "Elements sent to the edge."),
    ("taken", "sum", "{element}", "Elements that the next node has begun to work on."),
    ("dropped", "sum", "{element}", "Elements that the policy or an interrupt dropped."),
    ("pressured", "sum", "{event}", "How often the sender had to wait."),
    ("depth", "gauge", "{element}", "Elements in the queue."),
    ("bytes", "gauge", "By", "Bytes in the queue."),
)
_POOL: Final[tuple[_Row, ...]] = (
    ("allocations", "sum", "{payload}", "Payloads that were allocated."),
    ("releases", "sum", "{payload}", "Payloads that were released."),
    ("copies", "sum", "{copy}", "Payloads that were copied."),
    ("live", "gauge", "{payload}", "Payloads in use."),
)
_UNITS: Final = ("_s", "_ns")


def flow_metrics(statistics: Statistics) -> list[Metric]:
    """The metrics of a running or ended flow."""
    flow = {"flow": statistics.flow}
    nodes = [({**flow, **_labels(node)}, node) for node in statistics.nodes.values()]
    edges = [
        ({**flow, "source": edge.source, "port": edge.port, "target": edge.target}, edge)
        for edge in statistics.edges
    ]
    return [
        *_family("flow", _FLOW, [(flow, statistics)]),
        *_family("component", _COMPONENT, nodes),
        *_family("stream", _STREAM, edges),
        *_family("pool", _POOL, [(flow, statistics)]),
        *_denied(flow, statistics),
    ]


def _labels(node: NodeStatistics) -> dict[str, str]:
    return {"component": node.name, "role": str(node.role)}


def _family(
    family: str, rows: Iterable[_Row], sources: Sequence[tuple[Mapping[str, str], Any]]
) -> Iterator[Metric]:
    """One metric per row, one point per source that knows the figure."""
    for attribute, kind, unit, doc in rows:
        points = [
            Point(value, attributes)
            for attributes, source in sources
            if (value := getattr(source, attribute)) is not None
        ]
        if points:
            name = attribute
            for ending in _UNITS:
                name = name.removesuffix(ending)
            yield Metric(f"{family}.{name}", kind, unit, doc, points)


def _denied(flow: Mapping[str, str], statistics: Statistics) -> Iterator[Metric]:
    points = [
        Point(count, {**flow, "component": node.name, "capability": kind})
        for node in statistics.nodes.values()
        for kind, count in node.denied.items()
    ]
    if points:
        doc = "Requests of guests that were denied."
        yield Metric("capability.denied", "sum", "{request}", doc, points)


def process_metrics() -> list[Metric]:
    """What this process uses."""
    times = os.times()
    rows: list[tuple[str, Kind, str, str, int | float | None]] = [
        ("cpu_time", "sum", "s", "CPU time of the process.", times.user + times.system),
        ("memory", "gauge", "By", "Memory of the process in RAM.", resident_bytes()),
        ("threads", "gauge", "{thread}", "Python threads.", threading.active_count()),
    ]
    return [
        Metric(f"system.{name}", kind, unit, doc, [Point(value)])
        for name, kind, unit, doc, value in rows
        if value is not None
    ]
