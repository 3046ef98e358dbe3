"""The statistics of a flow with durable edges, as its author sees it: each edge is one edge again.

    entered = taken + dropped + unread

What was stored before this run, and dead letters that were put back, count as entered and as
restored; what is stored now, or on its way, as unread.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from torvyn._durable.backend import LogStatistics
from torvyn._durable.disk.backend import DiskEdge
from torvyn._durable.durable_run import DurableRun
from torvyn._flow.statistics import EdgeStatistics, Statistics


def fold(wired: Statistics, durable: DurableRun) -> Statistics:
    """The statistics with each durable edge as one edge again."""
    if not durable.is_remote:
        return fold_carriers(wired, durable.edges())
    from torvyn._flow.nats_account import fold_ends

    return fold_ends(wired, durable)


def fold_carriers(
    wired: Statistics, carried: Sequence[tuple[DiskEdge, LogStatistics]]
) -> Statistics:
    """Replaces the two ends of every durable edge by the edge."""
    nodes = dict(wired.nodes)
    edges = {(edge.source, edge.port, edge.target): edge for edge in wired.edges}
    for edge, stored in carried:
        ends = edge.wired
        plan = ends.edge
        before = edges.pop((plan.source, plan.port, ends.writer))
        after = edges.pop((ends.reader, "output", plan.target))
        rejected = nodes.pop(ends.writer).failed
        nodes.pop(ends.reader)
        key = (plan.source, plan.port, plan.target)
        edges[key] = _join(edge, before, after, stored, rejected)
    return Statistics(
        wired.flow, wired.state, wired.elapsed_s, wired.turns, nodes, tuple(edges.values())
    )


def _join(
    edge: DiskEdge,
    before: EdgeStatistics,
    after: EdgeStatistics,
    stored: LogStatistics,
    rejected: int,
) -> EdgeStatistics:
    restored = edge.stored_before + edge.put_back_count
    entered = before.entered + restored
    lost = stored.lost_before_reader - edge.lost_before
    # What became too old behind the reader counts there.
    dropped = before.dropped + after.dropped + rejected + lost
    return replace(
        before,
        target=edge.wired.edge.target,
        entered=entered,
        taken=after.taken,
        dropped=dropped,
        unread=entered - after.taken - dropped,
        depth=before.depth + after.depth,
        bytes=before.bytes + after.bytes,
        peak=max(before.peak, after.peak),
        peak_bytes=max(before.peak_bytes, after.peak_bytes),
        pressured=before.pressured + after.pressured,
        carrier="disk",
        stored=stored,
        restored=restored,
    )
