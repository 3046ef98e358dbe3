"""The bucket of a flow's entries.

It says which project it belongs to: another one may have a flow of the same name.
"""

from __future__ import annotations

from torvyn.jetstream import Entries
from torvyn.link.plan import ClusterPlan
from torvyn.reactor.carriers.nats.broker_thread import BrokerThread
from torvyn.reactor.carriers.nats.names import bucket
from torvyn.reactor.carriers.nats.refusals import other_project


def open_bucket(
    broker: BrokerThread, flow: str, cluster: ClusterPlan, *, is_fresh: bool
) -> Entries:
    """Makes it if it is new. Raises if it belongs to another project, unless that one's entries
    are to be discarded."""
    entries = Entries(broker.broker, broker.publisher, bucket(flow))
    project = cluster.project
    state = broker.call(entries.open(cluster.stream_replicas, description=project))
    if project and state.description not in ("", project):
        if not is_fresh:
            raise other_project(flow, state.description, project)
        broker.call(entries.describe(project))
    return entries
