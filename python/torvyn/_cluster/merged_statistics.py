"""The statistics of all groups as those of one flow.

What a process had counted is lost with it: a node counts since the last start of its process. The
two ends of an edge count the same elements, and the end that lost nothing decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from typing import Any, TypeVar

from torvyn._cluster.placement import Placement
from torvyn._contract.enums import FlowState
from torvyn._flow.statistics import EdgeStatistics, NodeStatistics, Statistics

Counts = TypeVar("Counts", NodeStatistics, EdgeStatistics)

_PEAKS = ("peak_bytes", "peak_held_bytes", "peak", "max_memory_bytes")
"""The largest of them counts; other numbers are added."""


def merge_statistics(
    placement: Placement,
    parts: Iterable[tuple[str, Statistics]],
    state: FlowState,
    elapsed_s: float,
) -> Statistics:
    """One of many. `parts`: the name of the group, and the statistics of one of its replicas."""
    found = list(parts)
    nodes: dict[str, NodeStatistics] = {}
    for group in placement.groups:
        own = [part for name, part in found if name == group.name]
        for name in group.nodes:
            counts = [part.nodes[name] for part in own if name in part.nodes]
            if counts:
                nodes[name] = _sum(counts)
    edges = [
        _edge(placed.source, placed.target, key, found, is_over=state == FlowState.COMPLETED)
        for placed in placement.edges
        if (key := (placed.edge.source, placed.edge.port, placed.edge.target))
    ]
    order = {node.name: at for at, node in enumerate(placement.plan.nodes)}
    return Statistics(
        placement.plan.name,
        state,
        elapsed_s,
        sum(part.turns for _, part in found),
        dict(sorted(nodes.items(), key=lambda item: order[item[0]])),
        tuple(edge for edge in edges if edge is not None),
    )


def _edge(
    source: str,
    target: str,
    key: tuple[str, str, str],
    parts: Sequence[tuple[str, Statistics]],
    *,
    is_over: bool,
) -> EdgeStatistics | None:
    """What the processes at its two ends have counted. `is_over`: nothing is left on it."""

    def counted_by(group: str) -> list[EdgeStatistics]:
        return [
            edge
            for name, part in parts
            if name == group
            for edge in part.edges
            if (edge.source, edge.port, edge.target) == key
        ]

    writers, readers = counted_by(source), counted_by(target)
    if source == target or not writers or not readers:
        found = writers or readers
        return _sum(found) if found else None
    taken = sum(edge.taken for edge in readers)
    dropped = sum(edge.dropped for edge in (*writers, *readers))
    entered = max(sum(edge.entered for edge in writers), taken + dropped)
    if is_over:
        taken = entered - dropped
    whole = _sum([*writers, *readers])
    unread = entered - taken - dropped
    return replace(whole, entered=entered, taken=taken, dropped=dropped, unread=unread)


def _sum(parts: Sequence[Counts]) -> Counts:
    """The first, with the numbers of all."""
    first = parts[0]
    if len(parts) == 1:
        return first
    values = {
        field.name: _combined(field.name, [getattr(part, field.name) for part in parts])
        for field in fields(first)
    }
    return replace(first, **values)


def _combined(name: str, values: Sequence[Any]) -> Any:
    known = [value for value in values if value is not None]
    if not known:
        return None
    if name == "mean_call_ns":
        return sum(known) / len(known)
    if isinstance(known[0], (int, float)) and not isinstance(known[0], bool):
        return max(known) if name in _PEAKS else sum(known)
    if isinstance(known[0], dict):
        names = dict.fromkeys(key for value in known for key in value)
        return {key: sum(value.get(key, 0) for value in known) for key in names}
    return known[0]
