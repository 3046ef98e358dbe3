"""Servers that share their sessions: a client may come back to any of them."""

from __future__ import annotations

import asyncio

import pytest
from asgi_client import PATIENCE_S, Client, Endless, Gated, within
from stored_processes import (
    STATEFUL,
    WORDS,
    assert_whole,
    begun,
    come_back,
    deltas,
    killed,
    last_id,
    process,
    slow,
)

from torvyn.engine import Scripted
from torvyn.protocol import Decoder, ErrorFrame, MetaFrame
from torvyn.serve import Application


async def spoken(engine: Gated, application: Application, *tokens: str) -> Client:
    """A client that was sent so much of an answer."""
    client = Client(application, body=STATEFUL)
    for number, token in enumerate(tokens):
        engine.tokens.put_nowait(token)
        await client.until(2 + number)
    return client


def error_codes(client: Client) -> list[str]:
    return [frame.code for frame in client.frames() if isinstance(frame, ErrorFrame)]


async def until(condition: object) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # type: ignore[operator]
            await asyncio.sleep(0.005)


async def test_another_server_sends_what_the_first_one_still_generates(shared: str) -> None:
    engine = Gated()
    async with process(engine, shared) as first, process(Gated(), shared) as second:
        client = await spoken(engine, first, "one ", "two ")
        client.leave()
        again = come_back(second, client)
        await again.until(1)
        engine.tokens.put_nowait("three")
        engine.tokens.put_nowait(None)
        await within(again)
    assert_whole(client, again, text="one two three")


async def test_a_client_that_comes_to_another_server_takes_the_stream_over(shared: str) -> None:
    engine = Gated()
    async with process(engine, shared) as first, process(Gated(), shared) as second:
        client = await spoken(engine, first, "one ")
        again = come_back(second, client)
        await within(client)
        third = come_back(first, client)
        await within(again)
        engine.tokens.put_nowait(None)
        await within(third)
    assert error_codes(client) == error_codes(again) == ["session.taken-over"]
    assert third.frames()[-1].finish[0].reason == "stop"


async def test_the_owner_of_a_session_may_be_killed_while_another_server_sends_it(
    shared: str,
) -> None:
    async with process(slow(), shared) as first, process(slow(), shared) as second:
        client = await begun(first, 2)
        client.leave()
        again = come_back(second, client)
        await again.until(2)
        await killed(first)
        await within(again)
    assert_whole(client, again)


async def test_the_owner_of_a_session_may_end_while_another_server_sends_it(shared: str) -> None:
    engine = Scripted(WORDS, delay=0.03)
    async with process(engine, shared) as first, process(engine, shared) as second:
        client = await begun(first, 2)
        client.leave()
        again = come_back(second, client)
        await again.until(2)
        await within(first.drain(0.001))
        await within(again)
    assert_whole(client, again)
    assert not error_codes(again)


async def test_a_server_that_lost_a_session_meanwhile_adds_nothing_to_it(shared: str) -> None:
    engine = Gated()
    async with process(engine, shared) as first, process(Gated(), shared) as second:
        client = await spoken(engine, first, "one ")
        assert second.sessions.cluster is not None
        # As if the first server had not answered for a while.
        await second.sessions.connect()
        second.sessions.cluster.peers.mark_gone(first.sessions.cluster.server)  # type: ignore[union-attr]
        again = await come_back(second, client)
        engine.tokens.put_nowait("two")
        await within(client)
        third = await come_back(first, client)
    assert error_codes(client) == ["session.taken-over"]
    assert error_codes(again) == error_codes(third) == ["session.generation-lost"]
    assert [text for _, text in deltas(client)] == ["one "]


async def test_only_one_of_many_servers_continues_a_session(shared: str) -> None:
    async with process(slow(), shared) as first:
        client = await begun(first, 3)
        await killed(first, client)
    async with (
        process(slow(), shared) as second,
        process(slow(), shared) as third,
        process(slow(), shared) as fourth,
    ):
        servers = (second, third, fourth)
        again = [come_back(server, client) for server in servers]
        await within(asyncio.gather(*(one.task for one in again)))
        whole = [one for one in again if not error_codes(one)]
        assert sum(len(server.sessions) for server in servers) >= 1
    assert len(whole) == 1
    assert_whole(client, whole[0])


@pytest.mark.parametrize(("query", "reason"), [({}, "stop"), ({"cancel": "1"}, "cancelled")])
async def test_any_server_stops_a_stream(shared: str, query: dict[str, str], reason: str) -> None:
    engine = Gated()
    async with process(engine, shared) as first, process(Gated(), shared) as second:
        client = await spoken(engine, first, "one ")
        path = f"/v1/streams/{client.frames_start_id()}"
        stopped = await Client(second, path, method="DELETE", query=query)
        await within(client)
    assert stopped.status == 202
    assert client.frames()[-1].finish[0].reason == reason


async def test_any_server_stops_a_stream_that_has_no_session(shared: str) -> None:
    engine = Gated()
    async with process(engine, shared) as first, process(Gated(), shared) as second:
        await second.sessions.connect()
        await first.sessions.connect()
        client = Client(first, body={"prompt": "Hi"})
        engine.tokens.put_nowait("one")
        await client.until(1)
        path = f"/v1/streams/{client.frames_start_id()}"
        stopped = await Client(second, path, method="DELETE")
        unknown = [
            (await Client(second, f"/v1/streams/{id}", method="DELETE")).status
            for id in ("nothing", "*", "%3E")
        ]
        await within(client)
    assert (stopped.status, unknown) == (202, [404, 404, 404])


async def test_any_server_deletes_a_session_that_has_ended(shared: str) -> None:
    async with process(Scripted(WORDS), shared) as first, process(Gated(), shared) as second:
        client = await Client(first, body=STATEFUL)
        path = f"/v1/streams/{client.frames_start_id()}"
        deleted = await Client(second, path, method="DELETE")
        answers = [await Client(server, path, method="GET") for server in (first, second)]
    assert deleted.json["forgotten"]
    assert [answer.status for answer in answers] == [404, 404]


async def test_any_server_observes_a_session(shared: str) -> None:
    engine = Gated()
    async with process(engine, shared) as first, process(Gated(), shared) as second:
        client = await spoken(engine, first, "one ")
        path = f"/v1/streams/{client.frames_start_id()}"
        observer = Client(second, path, method="GET", query={"observe": "1"})
        await observer.until(2)
        engine.tokens.put_nowait("two")
        engine.tokens.put_nowait(None)
        await within(observer)
        await within(client)
        assert len(second.sessions) == 0
    assert observer.frames() == client.frames()


async def plain(engine: Gated, first: Application, second: Application) -> tuple[Client, str]:
    """A client of a stream without a session, and where it can be observed."""
    await first.sessions.connect()
    await second.sessions.connect()
    client = Client(first, body={"prompt": "Hi"})
    engine.tokens.put_nowait("one ")
    await client.until(1)
    return client, f"/v1/streams/{client.frames_start_id()}"


async def test_any_server_observes_a_stream_that_has_no_session(shared: str) -> None:
    engine = Gated()
    async with process(engine, shared) as first, process(Gated(), shared) as second:
        client, path = await plain(engine, first, second)
        observers = [
            Client(server, path, method="GET", query={"observe": "1"}) for server in (first, second)
        ]
        for observer in observers:
            await observer.until(1)
        # It waits for frames longer than a server waits before it answers.
        await asyncio.sleep(1.2)
        for token in ("two ", "three", None):
            engine.tokens.put_nowait(token)
        for one in (*observers, client):
            await within(one)
    assert observers[1].frames() == observers[0].frames()
    assert [text for _, text in deltas(observers[1])] == ["two ", "three"]


async def test_an_observer_learns_that_the_server_of_the_stream_has_ended(shared: str) -> None:
    engine = Gated()
    async with process(engine, shared) as first, process(Gated(), shared) as second:
        client, path = await plain(engine, first, second)
        observer = Client(second, path, method="GET", query={"observe": "1"})
        await observer.until(1)
        await killed(first)
        await within(observer)
        client.leave()
        await within(client)
    assert error_codes(observer) == ["session.generation-lost"]


async def test_an_observer_at_another_server_learns_what_it_missed(shared: str) -> None:
    async with process(Endless(), shared) as first, process(Gated(), shared) as second:
        await first.sessions.connect()
        client = Client(first, body={"prompt": "Hi"})
        await client.until(1)
        path = f"/v1/streams/{client.frames_start_id()}"
        observer = Client(second, path, method="GET", query={"observe": "1"})
        await observer.until(1)
        observer.may_send.clear()
        await client.until(len(client.chunks) + 300)
        client.leave()
        await within(client)
        observer.may_send.set()
        await within(observer)
    frames = Decoder("torvyn", "sse").put(observer.body)
    assert sum(frame.data["skipped"] for frame in frames if isinstance(frame, MetaFrame)) > 100


async def test_a_stream_that_nobody_has_cannot_be_observed(shared: str) -> None:
    async with process(Gated(), shared) as first, process(Gated(), shared) as second:
        await first.sessions.connect()
        refused = await Client(second, "/v1/streams/none", method="GET", query={"observe": "1"})
    assert refused.status == 404


async def test_an_answer_keeps_the_pace_of_a_client_at_another_server(shared: str) -> None:
    engine = Endless()
    async with process(engine, shared) as first, process(Gated(), shared) as second:
        client = await begun(first, 2)
        client.leave()
        again = come_back(second, client)
        again.may_send.clear()
        await until(lambda: first.sessions._sessions[client.frames_start_id()].client)
        made = -1
        while made != engine.made:
            made = engine.made
            await asyncio.sleep(0.1)
        again.may_send.set()
        await until(lambda: engine.made > made + 10_000)
        again.leave()


async def test_a_session_that_has_expired_is_gone_from_the_broker(shared: str) -> None:
    async with process(Scripted(WORDS), shared, session_ttl_s=0.02) as application:
        client = await Client(application, body=STATEFUL)
        await until(lambda: not len(application.sessions))
        cluster = application.sessions.cluster
        assert cluster is not None
        async with asyncio.timeout(PATIENCE_S):
            while await cluster.store.log.ids():
                await asyncio.sleep(0.01)
        assert await cluster.store.records.get(client.frames_start_id()) is None


async def test_a_server_waits_for_a_frame_that_the_client_has_from_another(shared: str) -> None:
    engine = Gated()
    async with process(engine, shared) as first:
        client = await spoken(engine, first, "one ")
        ahead = f"{last_id(client).partition('-')[0]}-2"
        again = come_back(first, client, headers={"last-event-id": ahead})
        engine.tokens.put_nowait("two ")
        await again.until(1)
        engine.tokens.put_nowait("three")
        engine.tokens.put_nowait(None)
        await within(again)
    assert [text for _, text in deltas(again)] == ["three"]


async def test_an_event_id_of_another_server_is_understood_after_the_end(shared: str) -> None:
    async with process(Scripted(WORDS), shared) as first, process(Gated(), shared) as second:
        client = await Client(first, body=STATEFUL)
        again = await come_back(second, client)
    assert (again.status, last_id(client).partition("-")[2]) != (200, "")
    assert again.status == 204
