"""The connection to a broker, messages that it confirms, and values with revisions."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from nats_server import NatsServer
from torvyn._io.nats import BrokerConnection, Confirmed, Conflict, Message, Refused
from torvyn.errors import FlowError


def message(number: int, subject: str = "s.a") -> Message:
    return Message(subject, str(number).encode(), {"Nats-Msg-Id": f"m{number}"})


def test_a_message_is_confirmed_with_its_number(connected: Any) -> None:
    async def work(client: Any) -> Any:
        await client.stream()
        return await client.publisher.publish([message(0), message(1)])

    assert connected(work) == [Confirmed(1, False), Confirmed(2, False)]


def test_a_message_that_is_published_again_is_recognized(connected: Any) -> None:
    async def work(client: Any) -> Any:
        await client.stream()
        await client.publisher.publish([message(0)])
        return await client.publisher.publish([message(0)])

    assert connected(work) == [Confirmed(1, True)]


def test_a_full_subject_refuses_and_another_accepts(connected: Any) -> None:
    async def work(client: Any) -> Any:
        await client.stream(max_per_subject=2)
        batch = [message(0), message(1), message(2), message(3, "s.b")]
        return await client.publisher.publish(batch)

    outcomes = connected(work)
    assert isinstance(outcomes[2], Refused)
    assert outcomes[2].is_full
    assert isinstance(outcomes[3], Confirmed)


def test_room_is_made_by_purging(connected: Any) -> None:
    async def work(client: Any) -> Any:
        await client.stream(max_per_subject=2)
        await client.publisher.publish([message(0), message(1)])
        await client.streams.purge("S", below=2)
        return await client.publisher.publish([message(2)]), await client.streams.state("S")

    outcomes, state = connected(work)
    assert outcomes == [Confirmed(3, False)]
    assert (state.first, state.last, state.messages) == (2, 3, 2)


def test_limits_of_a_stream_can_be_raised(connected: Any) -> None:
    async def work(client: Any) -> Any:
        await client.stream(max_per_subject=1)
        await client.stream(max_per_subject=2)
        return await client.publisher.publish([message(0), message(1)])

    assert connected(work)[1] == Confirmed(2, False)


def test_an_entry_has_a_revision_and_only_one_writer_wins(connected: Any) -> None:
    async def work(client: Any) -> None:
        await client.entries.open()
        assert await client.entries.get("x") is None
        first = await client.entries.put("x", b"1", 0)
        second = await client.entries.put("x", b"2", first)
        with pytest.raises(Conflict):
            await client.entries.put("x", b"3", first)
        assert await client.entries.get("x") == (b"2", second)

    connected(work)


def test_a_deleted_entry_is_gone(connected: Any) -> None:
    async def work(client: Any) -> None:
        await client.entries.open()
        await client.entries.put("x", b"1")
        await client.entries.delete("x")
        assert await client.entries.get("x") is None
        await client.entries.put("x", b"2", 0)

    connected(work)


def test_a_killed_server_is_found_again_and_has_kept_everything(
    connected: Any, server: NatsServer
) -> None:
    async def work(client: Any) -> Any:
        await client.stream()
        await client.publisher.publish([message(0)])
        server.stop()
        await asyncio.to_thread(server.start)
        while client.broker.client is None or client.broker.connection.status.connects < 2:
            await asyncio.sleep(0.01)
        return await client.publisher.publish([message(1)])

    assert connected(work) == [Confirmed(2, False)]


def test_without_a_server_the_error_says_what_to_do(free_port: int) -> None:
    async def main() -> None:
        await BrokerConnection(f"nats://me:secret@127.0.0.1:{free_port}", "test").open(0.3)

    with pytest.raises(FlowError) as caught:
        asyncio.run(main())
    assert caught.value.code == "broker.away"
    assert "secret" not in str(caught.value)
    assert "nats-server -js" in (caught.value.hint or "")


def test_smaller_limits_wait_until_nothing_waits(connected: Any) -> None:
    async def work(client: Any) -> Any:
        await client.stream(max_per_subject=10, max_age_s=60)
        await client.publisher.publish([message(number) for number in range(5)])
        await client.stream(max_per_subject=2, max_age_s=1)
        kept = await client.streams.state("S")
        await client.streams.purge("S")
        await client.stream(max_per_subject=2, max_age_s=1)
        outcomes = await client.publisher.publish([message(number) for number in range(5, 8)])
        return kept.messages, isinstance(outcomes[2], Refused)

    assert connected(work) == (5, True)


def test_a_stream_that_the_server_has_no_room_for_says_so(connected: Any) -> None:
    async def work(client: Any) -> None:
        with pytest.raises(Refused, match="insufficient storage"):
            await client.stream(max_bytes=1 << 60)

    connected(work)


def test_a_connection_whose_client_does_not_close_is_given_up(connected: Any) -> None:
    async def work(client: Any) -> Any:
        await client.stream()

        async def never() -> None:
            await asyncio.sleep(3600)

        client.broker.client.close = never
        await client.broker.reconnect("nothing is answered")
        while client.broker.client is None or client.broker.connection.status.connects < 2:
            await asyncio.sleep(0.01)
        return await client.publisher.publish([message(0)])

    assert connected(work) == [Confirmed(1, False)]
