"""What the statistics of a `nats` edge say: what waits on the broker, what has expired there, and
whether the broker can be reached."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator

import pytest
from nats_parts import Collected, chain, check_account, part, texts, wait_until

import torvyn
from nats_server import NatsServer
from torvyn._cli.commands.top import render_flow
from torvyn._flow.health import HealthCheck, HealthState
from torvyn._flow.statistics import BrokerStatistics
from torvyn._io.connection import ConnectionState


def stored(flow: torvyn.Flow) -> BrokerStatistics:
    found = flow.statistics.edges[0].stored
    assert isinstance(found, BrokerStatistics)
    return found


def test_what_expires_before_it_is_read_is_counted_as_dropped(server: NatsServer) -> None:
    sink = Collected()

    def numbers() -> Iterator[str]:
        yield from texts(100)
        time.sleep(4.5)
        yield from texts(50)
        reader.start()

    flow = chain(("a", numbers()), ("b", sink), max_age_s=3.0)
    writer, reader = part(flow, "a"), part(flow, "b")
    writer.run()
    assert reader.wait(30)
    edge = reader.statistics.edges[0]
    read = len(sink.texts)
    assert 0 < read < 150
    assert (edge.entered, edge.taken, edge.dropped) == (150, read, 150 - read)
    assert stored(reader).expired == 150 - read
    check_account(reader)


def test_what_has_expired_is_logged_once(
    server: NatsServer, caplog: pytest.LogCaptureFixture
) -> None:
    def numbers() -> Iterator[str]:
        yield from texts(100)
        time.sleep(4.5)
        reader.start()
        yield from texts(50)
        wait_until(lambda: "older than 3 s" in caplog.text)

    flow = chain(("a", numbers()), ("b", Collected()), max_age_s=3.0)
    writer, reader = part(flow, "a"), part(flow, "b")
    with caplog.at_level(logging.WARNING):
        writer.run()
        assert reader.wait(30)
    assert caplog.text.count(f"deleted {stored(reader).expired} elements") == 1
    assert caplog.text.count("older than") == 1


def test_one_process_counts_what_expired_as_well(server: NatsServer) -> None:
    sink = Collected()
    sink.gate.clear()

    def numbers() -> Iterator[str]:
        for number in range(600):
            if number == 300:
                # A reader takes what its window holds; the rest expires.
                time.sleep(4.5)
                sink.gate.set()
            yield f"{number}" + "x" * 20_000

    flow = chain(("a", numbers()), ("b", sink), max_age_s=3.0)
    flow.run()
    edge = flow.statistics.edges[0]
    assert edge.entered == 600
    assert edge.dropped == stored(flow).expired > 0
    assert edge.taken == len(sink.texts) == 600 - edge.dropped
    check_account(flow)


def test_the_statistics_say_what_waits_on_the_broker(server: NatsServer) -> None:
    flow = chain(("a", texts(100)), ("b", Collected()))
    writer, reader = part(flow, "a"), part(flow, "b")
    writer.run()
    # Its elements, in one batch or several, and its end.
    assert (stored(writer).messages or 0) >= 2
    assert (stored(writer).bytes or 0) > 100
    reader.run()
    assert stored(reader).messages == 0


def test_top_shows_what_waits_on_the_broker(server: NatsServer) -> None:
    flow = part(chain(("a", texts(100)), ("b", Collected())), "a")
    flow.run()
    document = {
        "flow": "main",
        "pid": 1,
        "statistics": flow.statistics.to_dict(),
        "health": {"state": "idle", "reason": ""},
        "memory_limit_bytes": None,
        "resident_bytes": 0,
        "cpu_s": 0.0,
    }
    [row] = [line for line in render_flow(document, None).splitlines() if "a:output" in line]
    assert row.split()[3] == str(stored(flow).messages)


def test_a_lost_broker_is_a_lost_connection(server: NatsServer) -> None:
    sink = Collected()
    flow = chain(("a", texts(10)), ("b", sink))
    reader = part(flow, "b").start()
    health = HealthCheck(stall_s=60)
    health.check(reader.statistics)
    server.stop()
    wait_until(lambda: health.check(reader.statistics).state is HealthState.WAITING)
    assert "no connection to nats://" in health.check(reader.statistics).reason
    connection = reader.statistics.nodes["b"].connection
    assert connection is not None
    assert connection.state is ConnectionState.WAITING
    server.start()
    part(flow, "a").run()
    assert reader.wait(30)
