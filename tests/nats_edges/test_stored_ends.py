"""A flow has ended in order only when the broker has its end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from nats_parts import Collected, Sum, chain, check_account, part, sums, texts

import torvyn
from nats_server import NatsServer
from torvyn._durable.nats.entry import SegmentEntry
from torvyn._durable.nats.names import BatchId, FlowNames
from torvyn._io.jetstream import BrokerThread, Entries
from torvyn._io.nats import Message
from torvyn.errors import FlowError


def numbers_before_an_outage(server: NatsServer, count: int) -> Iterator[str]:
    for number in range(count):
        if number == count - 1:
            server.stop()
        yield str(number)


def outage_at_the_end(server: NatsServer) -> torvyn.Flow:
    """The first segment of a flow, whose broker goes away with its last element."""
    flow = chain(("a", numbers_before_an_outage(server, 100)), ("sum", Sum()), ("b", Collected()))
    return part(flow, "a")


@pytest.mark.parametrize("segments", [("a",), ("a", "sum")])
def test_the_end_waits_for_the_broker(server: NatsServer, segments: tuple[str, ...]) -> None:
    sink = Collected()
    source = numbers_before_an_outage(server, 100)
    flow = chain(("a", source), ("sum", Sum()), ("b", sink))
    first = part(flow, *segments).start()
    assert not first.wait(1)
    server.start()
    assert first.wait(30)
    assert first.state == "completed"
    for segment in ("sum", "b"):
        if segment not in segments:
            part(flow, segment).run()
    assert sink.texts == sums(100)
    check_account(first)


def test_a_cancel_ends_the_wait_and_the_flow_has_not_completed(server: NatsServer) -> None:
    flow = outage_at_the_end(server).start()
    assert not flow.wait(0.5)
    flow.cancel()
    assert flow.wait(10)
    assert (flow.state, flow.statistics.state) == ("cancelled", "cancelled")
    assert flow.end is not None
    assert flow.end.finish_reason == "cancelled"
    check_account(flow)
    assert flow.statistics.edges[0].entered == 100
    assert flow.statistics.edges[0].unread > 0


@pytest.mark.parametrize("how", ["run", "start"])
def test_a_deadline_ends_the_wait_and_the_flow_has_failed(server: NatsServer, how: str) -> None:
    plan = replace(outage_at_the_end(server).plan, deadline_s=1.5)
    flow = torvyn.Flow.from_plan(plan)
    with pytest.raises(FlowError, match="did not finish within") as caught:
        flow.run() if how == "run" else flow.start().wait(30)
    assert caught.value.code == "reactor.deadline-exceeded"
    assert flow.state == "failed"
    check_account(flow)


def test_an_end_that_a_dead_process_owed_is_published_before_the_run_is_over(
    server: NatsServer,
) -> None:
    """It was killed after its entry was saved, and before its end was published."""
    flow = chain(("a", texts(0)), ("sum", Sum()), ("b", Collected()))
    names = FlowNames("t", "main").edge(flow.plan.edges[1], 1)
    identity = BatchId(0, "c1", "r", 0, 0, 0)
    end = Message(f"{names.prefix}.0.$end-0", b"", {"Nats-Msg-Id": str(identity)})
    broker = BrokerThread(server.url, "main")
    entries = Entries(broker.broker, broker.publisher, "tv_t_main")
    broker.call(entries.open())
    entry = SegmentEntry(entries, "sum", "sum.0", broker.broker.max_payload)
    broker.call(entry.take_over("r"))
    broker.call(entry.save(replace(entry.saved, ended="r", outbox=[end])))
    with pytest.raises(FlowError, match="has ended in the run `r`"):
        part(flow, "sum", run="r").run()
    reader = part(flow, "b", run="r").start()
    assert reader.wait(10)
    saved = broker.call(entry.read())
    assert saved is not None
    assert not saved.outbox
    broker.close()
