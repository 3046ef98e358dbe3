"""The streams of `nats` edges. Each has the partitions that the replicas of its readers share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torvyn._link.plan import ClusterPlan
from torvyn.jetstream import Refused, StreamSpec, StreamState
from torvyn.reactor.carriers.nats.broker_thread import BrokerThread
from torvyn.reactor.carriers.nats.input_edge import InputEdge
from torvyn.reactor.carriers.nats.output_edge import OutputEdge
from torvyn.reactor.carriers.nats.refusals import partitions_changed, refused

Edge = InputEdge | OutputEdge


def open_streams(
    broker: BrokerThread, edges: Sequence[Edge], cluster: ClusterPlan, *, is_fresh: bool
) -> dict[str, StreamState]:
    """Makes the streams that are missing, and again those that have other partitions: that is
    possible only if nothing waits there, or nothing of it is wanted."""
    by_stream = {edge.names.stream: edge for edge in edges}
    other = []
    for stream, edge in by_stream.items():
        found = broker.call(broker.streams.state(stream))
        if found is None or found.description == _description(edge):
            continue
        if found.messages and not is_fresh:
            raise partitions_changed(edge.name, found.messages)
        other.append(stream)
    for stream in other:
        broker.call(broker.streams.delete(stream))
    return {stream: _ensure(broker, edge, cluster) for stream, edge in by_stream.items()}


def _description(edge: Edge) -> str:
    return f"torvyn: {edge.names.partitions} partitions"


def _ensure(broker: BrokerThread, edge: Edge, cluster: ClusterPlan) -> StreamState:
    plan, names = edge.wired.edge, edge.names
    spec = StreamSpec(
        name=names.stream,
        subjects=(f"{names.prefix}.*.*",),
        max_per_subject=plan.max_waiting,
        max_bytes=plan.max_bytes,
        max_age_s=plan.max_age_s,
        duplicate_window_s=cluster.duplicate_window_s,
        replicas=cluster.stream_replicas,
        description=_description(edge),
    )
    try:
        return broker.call(broker.streams.ensure(spec))
    except Refused as error:
        raise refused(edge.name, error, cluster.stream_replicas) from error


def origin(edge: InputEdge, state: StreamState) -> dict[str, Any]:
    """What the numbers and the ends of an edge depend on, as it is saved with them."""
    return {
        "created": state.created,
        "partitions": edge.names.partitions,
        "writers": edge.writers,
    }
