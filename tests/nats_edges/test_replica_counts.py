"""Another number of replicas: no position and no state is used that belongs to another replica."""

from __future__ import annotations

import asyncio

import nats
import pytest
from keyed_flow import Numbers, delivered, expected, keyed, run_and_stop, sum_parts
from nats_parts import Collected, part, run_parts, wait_until

import torvyn
from nats_server import NatsServer
from torvyn.errors import FlowError


def everything(flow: torvyn.Flow, replicas: int) -> list[torvyn.Flow]:
    return [part(flow, "write"), *sum_parts(flow, replicas), part(flow, "read")]


def refusal(flow: torvyn.Flow) -> FlowError:
    with pytest.raises(FlowError) as caught:
        flow.run()
    return caught.value


@pytest.mark.parametrize("now", [1, 3])
@pytest.mark.parametrize("segment", ["sum", "read"])
def test_states_of_another_number_of_replicas_are_refused(
    server: NatsServer, now: int, segment: str
) -> None:
    sink = Collected()
    run_and_stop(100, sink, 2)
    error = refusal(part(keyed(Numbers(0), sink, now), segment))
    assert error.code == "broker.replicas-changed"
    assert f"`sum` has {now} replicas, and what is saved belongs to 2" in error.message
    assert "saved states of `sum`" in error.message
    # With the number that it had, it goes on.
    run_parts(everything(keyed(Numbers(100, 100), sink, 2), 2))
    assert delivered(sink) == expected(200)


def test_a_refused_start_leaves_the_running_process_alone(server: NatsServer) -> None:
    sink = Collected()
    run_and_stop(100, sink, 2)
    flow = keyed(Numbers(100, 100), sink, 2)
    running = [each.start() for each in everything(flow, 2)[:-1]]
    refusal(part(keyed(Numbers(0), sink, 3), "sum"))
    part(flow, "read").run()
    assert all(each.wait(30) for each in running)
    assert delivered(sink) == expected(200)


@pytest.mark.parametrize("now", [1, 3])
def test_after_the_end_of_a_run_the_number_can_change(server: NatsServer, now: int) -> None:
    first, second = Collected(), Collected()
    run_parts(everything(keyed(Numbers(100), first, 2), 2))
    assert delivered(first) == expected(100)
    run_parts(everything(keyed(Numbers(300), second, now), now))
    assert delivered(second) == expected(300)
    third = Collected()
    run_parts(everything(keyed(Numbers(200), third, 2), 2))
    assert delivered(third) == expected(200)


def test_fresh_begins_with_another_number(server: NatsServer) -> None:
    run_and_stop(100, Collected(), 2)
    sink = Collected()
    flows = everything(keyed(Numbers(100), sink, 3), 3)
    for flow in flows:
        flow.is_fresh = True
    running = [flow.start() for flow in flows]
    assert all(flow.wait(30) for flow in running)
    assert delivered(sink) == expected(100)


def test_what_one_process_has_saved_is_not_shared_out(server: NatsServer) -> None:
    sink = Collected()
    flow = keyed(Numbers(100, is_ending=False), sink, 2).start()
    wait_until(lambda: len(sink.texts) == 100)
    flow.drain()
    flow.wait(30)
    error = refusal(part(keyed(Numbers(0), sink, 2), "sum"))
    assert error.code == "broker.replicas-changed"
    assert "has 2 replicas, and what is saved belongs to 1" in error.message


def test_a_writer_with_the_old_number_publishes_nothing(server: NatsServer) -> None:
    """The old process of `read` still runs when the replicas of `sum` are changed."""
    sink = Collected()
    run_parts(everything(keyed(Numbers(0), sink, 2), 2))
    old = part(keyed(Numbers(50, is_ending=False), sink, 2), "read")
    stream = "TV_t_main_read-output-sum"

    async def delete() -> None:
        client = await nats.connect(server.url)
        await client.jetstream().delete_stream(stream)
        await client.close()

    asyncio.run(delete())
    new = [each.start() for each in everything(keyed(Numbers(100), sink, 3), 3)[:-1]]
    refused = refusal(old)
    assert refused.code == "broker.replicas-changed"
    part(keyed(Numbers(100), sink, 3), "read").run()
    assert all(each.wait(30) for each in new)
    assert delivered(sink) == expected(100)
