"""Room on the broker: what was read is deleted, however often that fails."""

from __future__ import annotations

from typing import Any

import pytest
from nats_parts import Collected, chain, check_account, part, wait_until

from failing_once import UNEXPECTED, fail_once
from nats_server import NatsServer
from torvyn._durable.nats.backend import StreamFigures
from torvyn._durable.nats.edges import Purger
from torvyn._durable.nats.names import EdgeNames
from torvyn._io.jetstream import BrokerThread, Streams, StreamSpec
from torvyn._io.nats import BrokerConnection, BrokerUnavailable, Message

pytestmark = pytest.mark.timeout(60)


class FailingPurges:
    """The first purges fail as if the connection were lost."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, failures: int) -> None:
        self.failures = failures
        purge = Streams.purge

        async def fail_first(streams: Streams, *arguments: Any, **options: Any) -> None:
            if self.failures > 0:
                self.failures -= 1
                raise BrokerUnavailable("the connection is lost")
            await purge(streams, *arguments, **options)

        monkeypatch.setattr(Streams, "purge", fail_first)


def test_a_purge_that_failed_is_repeated(
    server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    FailingPurges(monkeypatch, 3)
    sink = Collected()
    flow = chain(("a", ["x" * 4000] * 500), ("b", sink), max_waiting=1)
    flow.run()
    assert len(sink.texts) == 500
    check_account(flow)


def test_what_an_earlier_process_could_not_delete_is_deleted(
    server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    purges = FailingPurges(monkeypatch, 1_000_000)
    sink = Collected()
    flow = chain(("a", ["x" * 4000] * 500), ("b", sink), max_waiting=1)
    writer, reader = part(flow, "a").start(), part(flow, "b").start()
    wait_until(lambda: len(sink.texts) >= 1 and reader.statistics.edges[0].unread == 0)
    reader.drain()
    reader.wait(30)
    purges.failures = 0
    part(flow, "b").run()
    assert writer.wait(30)
    assert len(sink.texts) == 500


def test_what_is_settled_while_a_purge_runs_is_deleted_by_the_next_one(
    server: NatsServer,
) -> None:
    broker = BrokerThread(server.url, "main")
    names = EdgeNames("S", "s", 4)
    broker.call(broker.streams.ensure(StreamSpec("S", ("s.*.*",), 10)))
    messages = [Message(f"s.{partition}.k", b"", {}) for partition in (0, 1, 0, 1)]
    broker.call(broker.publisher.publish(messages))
    purger = Purger(broker.streams, names, [0, 1], 0)
    for partition, sequence in ((0, 1), (1, 2), (0, 3)):
        purger.touch(partition, sequence)
    purger.done = 2
    broker.call(purger.finish())
    assert left(broker) == 2
    purger.done = 3
    broker.call(purger.finish())
    assert left(broker) == 1
    broker.close()


def left(broker: BrokerThread) -> int:
    state = broker.call(broker.streams.state("S"))
    assert state is not None
    return state.messages


@pytest.mark.parametrize("error", UNEXPECTED)
@pytest.mark.parametrize(
    ("loop", "step"),
    [(Purger, "_purge_up_to"), (StreamFigures, "_look"), (BrokerConnection, "_session")],
)
def test_an_unexpected_error_of_a_task_ends_nothing(
    server: NatsServer, monkeypatch: pytest.MonkeyPatch, loop: type, step: str, error: BaseException
) -> None:
    has_failed = fail_once(monkeypatch, loop, step, error)
    sink = Collected()
    flow = chain(("a", ["x" * 4000] * 100), ("b", sink), max_waiting=1)
    flow.run()

    assert has_failed.is_set()
    assert len(sink.texts) == 100
