"""The statistics of a flow with `nats` edges, as its author sees it: each edge is one edge again.

    entered = taken + dropped + unread

In a process that has only the beginning of an edge, `taken` is what the broker has confirmed; where
only its end is, `entered` is what the broker has delivered. In a process with both, what an earlier
run has left counts as entered when it is read. What has expired on the broker counts as dropped.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from torvyn._durable.durable_run import DurableRun
from torvyn._durable.nats.backend import StreamFigures
from torvyn._durable.nats.edges import InputEdge, OutputEdge
from torvyn._durable.nats.startup import NatsRun
from torvyn._flow.statistics import BrokerStatistics, EdgeStatistics, NodeStatistics, Statistics
from torvyn._io.connection import ConnectionState, ConnectionStatus


def fold_ends(wired: Statistics, run: DurableRun) -> Statistics:
    """Replaces the ends of every `nats` edge by the edge."""
    assert isinstance(run, NatsRun)
    outputs, inputs, figures = run.ends()
    nodes = dict(wired.nodes)
    edges = {(edge.source, edge.port, edge.target): edge for edge in wired.edges}
    by_output = {edge.name: edge for edge in outputs}
    by_input = {edge.name: edge for edge in inputs}
    for ends in run.wired.edges:
        author = ends.edge
        output, source = by_output.get(ends.log), by_input.get(ends.log)
        before = edges.pop((author.source, author.port, ends.writer), None)
        after = edges.pop((ends.reader, "output", author.target), None)
        writer = nodes.pop(ends.writer, None)
        nodes.pop(ends.reader, None)
        rejected = 0 if writer is None else writer.failed
        whole = _whole(before, after, output, source, rejected)
        edges[author.source, author.port, author.target] = replace(
            whole,
            source=author.source,
            port=author.port,
            target=author.target,
            unread=whole.entered - whole.taken - whole.dropped,
            carrier="nats",
            stored=_stored(output, source, figures),
        )
        if figures is not None:
            _connect(nodes, (author.source, author.target), figures.connection.status)
    return replace(wired, nodes=nodes, edges=tuple(edges.values()))


def _connect(
    nodes: dict[str, NodeStatistics], names: Iterable[str], status: ConnectionStatus
) -> None:
    """Nodes beside an edge have its connection, unless they have one of their own that tells
    more."""
    is_away = status.state in (ConnectionState.WAITING, ConnectionState.REJECTED)
    for name in names:
        node = nodes.get(name)
        if node is not None and (node.connection is None or is_away):
            nodes[name] = replace(node, connection=status)


def _stored(
    output: OutputEdge | None, source: InputEdge | None, figures: StreamFigures | None
) -> BrokerStatistics:
    edge = output or source
    assert edge is not None
    messages, size_bytes = (None, None) if figures is None else figures.of(edge.names.stream)
    return BrokerStatistics(
        messages=messages,
        bytes=size_bytes,
        limit_bytes=edge.options.max_bytes,
        expired=0 if source is None else source.expired,
        corrupt=0 if source is None else source.corrupt,
        repeated=0 if source is None else source.repeated,
        refusals=0 if output is None else output.refusals,
    )


def _whole(
    before: EdgeStatistics | None,
    after: EdgeStatistics | None,
    output: OutputEdge | None,
    source: InputEdge | None,
    rejected: int,
) -> EdgeStatistics:
    if before is not None and output is not None and after is not None and source is not None:
        own = source.expired_of(output.identity.series, output.first)
        expired = max(source.expired, own)
        return replace(
            before,
            entered=before.entered + source.from_before + expired - own,
            taken=after.taken,
            dropped=before.dropped + after.dropped + rejected + source.corrupt + expired,
            depth=before.depth + after.depth,
            bytes=before.bytes + after.bytes,
            peak=max(before.peak, after.peak),
            peak_bytes=max(before.peak_bytes, after.peak_bytes),
            pressured=before.pressured + after.pressured,
        )
    if before is not None and output is not None:
        return replace(before, taken=output.confirmed, dropped=before.dropped + rejected)
    assert after is not None
    assert source is not None
    lost = source.expired + source.corrupt
    return replace(after, entered=source.received + lost, dropped=after.dropped + lost)
