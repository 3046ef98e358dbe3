"""The bucket of a flow's entries.

It says which project it belongs to: another one may have a flow of the same name in the same
namespace.
"""

from __future__ import annotations

from dataclasses import replace

from torvyn._link.plan import ClusterPlan
from torvyn.jetstream import Entries, Refused
from torvyn.reactor.carriers.nats.broker_thread import BrokerThread
from torvyn.reactor.carriers.nats.names import FlowNames
from torvyn.reactor.carriers.nats.refusals import before_namespaces, bucket_refused, other_project


def open_bucket(
    broker: BrokerThread, names: FlowNames, cluster: ClusterPlan, *, is_fresh: bool
) -> Entries:
    """Makes it if it is new. Raises if it belongs to another project, or if an earlier version has
    saved the flow without a namespace, and that is wanted."""
    entries = Entries(broker.broker, broker.publisher, names.bucket)
    project = cluster.project
    state = broker.call(broker.streams.state(entries.stream))
    if state is None and not is_fresh:
        _check_earlier(broker, names, project)
    if state is not None and project and state.description not in ("", project):
        # Not with `--fresh` either: what it discards must be the project's own.
        raise other_project(names, state.description, project)
    try:
        broker.call(entries.open(cluster.stream_replicas, description=project))
    except Refused as error:
        raise bucket_refused(names.flow, error, cluster.stream_replicas) from error
    return entries


def _check_earlier(broker: BrokerThread, names: FlowNames, project: str) -> None:
    """Raises if the project has run the flow before there were namespaces."""
    earlier = replace(names, namespace="")
    if not names.namespace or not project:
        return
    entries = Entries(broker.broker, broker.publisher, earlier.bucket)
    state = broker.call(broker.streams.state(entries.stream))
    if state is not None and state.description == project:
        raise before_namespaces(names)
