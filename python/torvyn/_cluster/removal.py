"""Removes what a flow has on the broker: the streams of its edges, and the bucket with what it has
saved."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from torvyn._durable.nats.entry import who_runs
from torvyn._durable.nats.failures import flow_runs
from torvyn._durable.nats.names import FlowNames
from torvyn._io.jetstream import BrokerThread, StreamState
from torvyn._link.plan import ClusterPlan


@dataclass(frozen=True, slots=True)
class StoredPart:
    """A stream or a bucket of the flow."""

    name: str
    messages: int
    stored_bytes: int
    is_bucket: bool


class Removal:
    """Of one flow, on an open connection."""

    def __init__(self, broker: BrokerThread, names: FlowNames) -> None:
        self._broker, self._names = broker, names

    def find(self) -> list[StoredPart]:
        """What the flow has. Raises `broker.flow-runs` while a process of it runs."""
        who = self._broker.call(who_runs(self._broker.broker, self._names.presence))
        if who is not None:
            raise flow_runs(self._names, who)
        found = self._broker.call(self._broker.streams.of_subjects(f"{self._names.prefix}.>"))
        parts = [_part(name, state) for name, state in found.items()]
        bucket = f"KV_{self._names.bucket}"
        state = self._broker.call(self._broker.streams.state(bucket))
        return parts if state is None else [*parts, _part(bucket, state, is_bucket=True)]

    def remove(self, parts: list[StoredPart]) -> None:
        # The bucket first: without it, what is left in the streams belongs to nobody.
        for part in sorted(parts, key=lambda part: not part.is_bucket):
            self._broker.call(self._broker.streams.delete(part.name))


@contextmanager
def removal_of(flow: str, cluster: ClusterPlan) -> Iterator[Removal]:
    broker = BrokerThread(cluster.nats, flow, login=cluster.login)
    try:
        yield Removal(broker, FlowNames(cluster.namespace, flow))
    finally:
        broker.close()


def _part(name: str, state: StreamState, *, is_bucket: bool = False) -> StoredPart:
    return StoredPart(name, state.messages, state.bytes, is_bucket)
