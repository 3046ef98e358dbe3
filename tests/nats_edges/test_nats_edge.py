"""Edges that a NATS server carries, with both ends in one process and in several."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import nats
import pytest
from nats_parts import (
    Collected,
    Sum,
    chain,
    check_account,
    part,
    run_parts,
    sums,
    texts,
    wait_until,
)

import torvyn
from nats_server import NatsServer
from torvyn.errors import FlowError, LinkError


def test_a_flow_in_one_process_sends_its_elements_over_the_broker(server: NatsServer) -> None:
    sink = Collected()
    flow = chain(("a", texts(500)), ("b", sink))
    flow.run()
    assert sink.texts == texts(500)
    assert [edge.carrier for edge in flow.statistics.edges] == ["nats"]
    check_account(flow)


def test_two_processes_share_an_edge(server: NatsServer) -> None:
    sink = Collected()
    flow = chain(("a", texts(500)), ("b", sink))
    run_parts([part(flow, "b"), part(flow, "a")])
    assert sink.texts == texts(500)


def test_what_was_written_before_its_reader_started_is_read(server: NatsServer) -> None:
    sink = Collected()
    flow = chain(("a", texts(100)), ("b", sink))
    part(flow, "a").run()
    part(flow, "b").run()
    assert sink.texts == texts(100)


def test_a_second_run_continues_behind_the_end_of_the_first(server: NatsServer) -> None:
    sink = Collected()
    for _ in range(2):
        flow = chain(("a", texts(50)), ("b", sink))
        run_parts([part(flow, "b"), part(flow, "a")])
    assert sink.texts == texts(50) * 2


def test_a_segment_in_the_middle_keeps_its_state(server: NatsServer) -> None:
    sink = Collected()
    flow = chain(("a", texts(300)), ("sum", Sum()), ("b", sink))
    run_parts([part(flow, "b"), part(flow, "sum"), part(flow, "a")])
    assert sink.texts == sums(300)


def test_the_whole_flow_with_a_state_gives_the_same(server: NatsServer) -> None:
    sink = Collected()
    chain(("a", texts(300)), ("sum", Sum()), ("b", sink)).run()
    assert sink.texts == sums(300)


def test_nothing_is_left_on_the_broker(server: NatsServer) -> None:
    async def waiting() -> int:
        client = await nats.connect(server.url)
        state = (await client.jetstream().stream_info("TV_t_main_a-output-b")).state
        await client.close()
        return int(state.messages)

    chain(("a", texts(100)), ("b", Collected())).run()
    assert asyncio.run(waiting()) == 0


def test_a_slow_reader_holds_the_writer_back(server: NatsServer) -> None:
    sink = Collected()
    sink.gate.clear()
    flow = chain(("a", ["x" * 4000] * 3000), ("b", sink), max_waiting=2)
    reader, writer = part(flow, "b").start(), part(flow, "a").start()
    # A mebibyte waits in the log of the writer, and another one in front of the broker.
    wait_until(lambda: writer.statistics.edges[0].entered > 500)
    assert writer.statistics.edges[0].entered < 2500
    sink.gate.set()
    assert writer.wait(60)
    assert reader.wait(60)
    assert len(sink.texts) == 3000


def test_an_element_that_the_broker_cannot_take_is_named_and_counted(
    server: NatsServer, caplog: pytest.LogCaptureFixture
) -> None:
    sink = Collected()
    flow = chain(("a", ["a", "x" * 2_000_000, "b"]), ("b", sink))
    with caplog.at_level(logging.WARNING):
        flow.run()
    assert sink.texts == ["a", "b"]
    assert flow.statistics.edges[0].dropped == 1
    assert "2000000 bytes" in caplog.text
    assert "max_payload" in caplog.text


def test_a_broker_that_is_killed_costs_nothing(server: NatsServer) -> None:
    sink = Collected()

    def numbers() -> Any:
        for number in range(400):
            if number == 200:
                server.stop()
                server.start()
            yield str(number)

    chain(("a", numbers()), ("sum", Sum()), ("b", sink)).run()
    assert sink.texts == sums(400)


def test_a_second_process_takes_over_and_the_first_one_fails(server: NatsServer) -> None:
    flow = chain(("a", texts(10)), ("b", Collected()))
    first = part(flow, "b").start()
    second = part(flow, "b").start()
    with pytest.raises(FlowError) as caught:
        first.wait(30)
    assert caught.value.code == "broker.taken-over"
    part(flow, "a").run()
    assert second.wait(30)


def test_without_a_broker_the_edge_is_kept_on_the_disk(
    server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TORVYN_CLUSTER__NATS")
    flow = torvyn.Flow(name="main")
    sink = Collected()
    flow.add("a", texts(100)).add("b", sink).connect("a", "b", carrier="nats").run()
    assert sink.texts == texts(100)
    assert flow.statistics.edges[0].carrier == "disk"


def test_a_way_over_the_broker_that_leads_back_is_refused(server: NatsServer) -> None:
    flow = torvyn.Flow(name="main")
    flow.add("a", texts(3)).add("b", Sum()).add("c", Sum()).add("d", Collected())
    flow.connect("a", "b", carrier="nats").connect("b", "c", carrier="nats")
    flow.connect("a", "d").connect("c", "d")
    with pytest.raises(LinkError, match="from `a` to `b`") as caught:
        flow.run()
    assert "link.segment-cycle" in str(caught.value.code)


def test_elements_of_two_edges_have_different_sequence_numbers(server: NatsServer) -> None:
    """A sink that leaves out what it has seen must not take one edge for the other."""
    sink = Collected()
    flow = torvyn.Flow(name="main")
    flow.add("a", texts(50)).add("b", texts(50)).add("c", sink)
    flow.connect("a", "c", carrier="nats").connect("b", "c", carrier="nats")
    flow.run()
    assert sorted(sink.texts) == sorted(texts(50) * 2)
    check_account(flow)
