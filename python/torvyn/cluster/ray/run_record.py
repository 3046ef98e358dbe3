"""Which run of a flow is under way, as the broker keeps it.

A run is open until all groups have ended and the command has said so. A command that was killed is
called again and continues its run: the groups that have ended in it do not begin anew.
"""

from __future__ import annotations

import json
import logging
import secrets
from dataclasses import asdict, dataclass
from typing import Final

from torvyn._io.broker_login import NO_LOGIN
from torvyn._link.plan import Plan, segments_of
from torvyn.errors import FlowError
from torvyn.jetstream import BrokerUnavailable, Entries
from torvyn.reactor.carriers.nats.broker_thread import BrokerThread
from torvyn.reactor.carriers.nats.entries.flow_bucket import open_bucket
from torvyn.reactor.carriers.nats.entries.segment_entry import SegmentEntry
from torvyn.reactor.carriers.nats.names import FlowNames, token

logger = logging.getLogger("torvyn.cluster")

_KEY: Final = "run"
_SEGMENTS: Final = "*.*"
"""What the keys of segments match."""


@dataclass(frozen=True, slots=True)
class RunRecord:
    """The last run of a flow, as the broker keeps it."""

    run: str
    is_open: bool = False
    discards: bool = False
    """Whether what earlier runs have saved is still to be discarded."""


def begin_run(plan: Plan, url: str, *, is_fresh: bool = False) -> str:
    """The id of the open run, or of a new one. `is_fresh`: discards what earlier runs have saved
    and sent."""
    broker = BrokerThread(url, plan.name, login=plan.cluster.login if plan.cluster else NO_LOGIN)
    try:
        entries = _open(plan, broker, is_fresh=is_fresh)
        return broker.call(_begin(plan, broker, entries, is_fresh=is_fresh))
    finally:
        broker.close()


def end_run(plan: Plan, url: str, run: str) -> None:
    """The run is over: the next one begins anew."""
    try:
        broker = BrokerThread(
            url, plan.name, login=plan.cluster.login if plan.cluster else NO_LOGIN
        )
        try:
            broker.call(_write(_open(plan, broker), RunRecord(run)))
        finally:
            broker.close()
    except (BrokerUnavailable, FlowError) as error:
        logger.warning(
            "the broker does not know that the run is over: %s; the next call of the command finds "
            "nothing to do, and the one after it begins anew",
            error,
        )


def _open(plan: Plan, broker: BrokerThread, *, is_fresh: bool = False) -> Entries:
    assert plan.cluster is not None
    return open_bucket(broker, FlowNames.of(plan), plan.cluster, is_fresh=is_fresh)


async def _begin(plan: Plan, broker: BrokerThread, entries: Entries, *, is_fresh: bool) -> str:
    entry = await entries.get(_KEY)
    last = RunRecord("") if entry is None else RunRecord(**json.loads(entry.value))
    if is_fresh or not last.is_open:
        last = RunRecord(secrets.token_hex(4), True, is_fresh or last.discards)
        await _write(entries, last)
    if last.discards:
        await _discard(plan, broker, entries)
        await _write(entries, RunRecord(last.run, True))
    return last.run


async def _write(entries: Entries, record: RunRecord) -> None:
    await entries.put(_KEY, json.dumps(asdict(record)).encode())


async def _discard(plan: Plan, broker: BrokerThread, entries: Entries) -> None:
    """First the states, so that no process of an earlier run goes on; then the elements."""
    replicas = {token(segment.name): segment.replicas for segment in segments_of(plan)}
    for key in await entries.keys(_SEGMENTS):
        name, payload = key.rpartition(".")[0], broker.broker.max_payload
        entry = SegmentEntry(entries, name, key, payload, replicas.get(name, 1))
        await (entry.take_over(is_fresh=True) if name in replicas else entry.delete())
    for edge in plan.edges:
        stream = FlowNames.of(plan).edge(edge, 1).stream
        if edge.carrier == "nats" and await broker.streams.state(stream) is not None:
            await broker.streams.purge(stream)
