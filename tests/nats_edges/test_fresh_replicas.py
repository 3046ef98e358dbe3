"""`--fresh` on the replicas of a segment: each discards what it has sent itself, and no more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from keyed_flow import Numbers, delivered, expected, keyed
from nats.js.errors import NotFoundError
from nats_parts import Collected, part

import torvyn
from nats_server import NatsServer, ask
from torvyn._io.jetstream import PAGE_MESSAGES

STREAM = "TV_t_main_sum-output-write"


def fresh(flow: torvyn.Flow) -> torvyn.Flow:
    flow.is_fresh = True
    return flow


def sent(server: NatsServer) -> dict[str, int]:
    """How many batches of each writer wait behind `sum`."""

    async def count(_client: object, js: Any) -> dict[str, int]:
        state = (await js.stream_info(STREAM)).state
        found: dict[str, int] = {}
        for sequence in range(state.first_seq, state.last_seq + 1):
            try:
                message = await js.get_msg(STREAM, sequence)
            except NotFoundError:
                continue
            writer = message.headers["Nats-Msg-Id"].partition(".")[0]
            found[writer] = found.get(writer, 0) + 1
        return found

    counts: dict[str, int] = ask(server, count)
    return counts


def run_up_to_the_sink(server: NatsServer, count: int, replicas: int, order: Sequence[int]) -> None:
    """Starts everything but the sink with `--fresh`, each replica after the one before has sent
    its results."""
    flow = keyed(Numbers(count), Collected(), replicas)
    fresh(part(flow, "read")).run()
    for replica in order:
        fresh(part(flow, "sum", replica=replica)).run()
        assert sent(server)[str(replica)]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)])
def test_a_replica_that_starts_later_deletes_nothing_of_the_others(
    server: NatsServer, order: tuple[int, ...]
) -> None:
    run_up_to_the_sink(server, 210, 3, order)
    sink = Collected()
    fresh(part(keyed(Numbers(0), sink, 3), "write")).run()
    assert delivered(sink) == expected(210)


def test_what_earlier_runs_have_sent_is_discarded(server: NatsServer) -> None:
    run_up_to_the_sink(server, 70, 3, (0, 1, 2))
    run_up_to_the_sink(server, 140, 2, (1, 0))
    sink = Collected()
    fresh(part(keyed(Numbers(0), sink, 2), "write")).run()
    assert delivered(sink) == expected(140)


def test_an_attempt_that_was_given_up_does_not_count(server: NatsServer) -> None:
    """Only one replica was started then; nothing of it is left."""
    flow = keyed(Numbers(70), Collected(), 2)
    fresh(part(flow, "read")).run()
    fresh(part(flow, "sum", replica=1)).run()
    run_up_to_the_sink(server, 140, 2, (0, 1))
    sink = Collected()
    fresh(part(keyed(Numbers(0), sink, 2), "write")).run()
    assert delivered(sink) == expected(140)


def test_more_batches_than_a_page_are_discarded(server: NatsServer) -> None:
    flow = keyed(Numbers(0), Collected(), 2)
    fresh(part(flow, "sum", replica=0)).start().cancel()

    async def publish(_client: object, js: Any) -> None:
        for number in range(3 * PAGE_MESSAGES):
            writer, key = number % 2, number % 7
            headers = {"Nats-Msg-Id": f"{writer}.cold.g1.0.{number}.1"}
            await js.publish(f"tv.t.main.sum-output-write.1.0.k{key}", b"", headers=headers)

    ask(server, publish)
    fresh(part(flow, "sum", replica=0)).start().cancel()
    assert sent(server) == {"1": 3 * PAGE_MESSAGES // 2}
