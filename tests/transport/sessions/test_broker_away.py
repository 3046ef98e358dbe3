"""A broker that is killed, away and back: streams pause, and nothing that was confirmed is lost."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from asgi_client import Client, Gated, within
from stored_processes import STATEFUL, WORDS, assert_whole, begun, come_back, deltas, process

from nats_server import NatsServer
from torvyn.engine import Scripted
from torvyn.errors import TorvynError
from torvyn.protocol import ErrorFrame
from torvyn.transport.sessions.shared import store as shared_store
from torvyn.transport.sessions.shared.address import StoreAddress


def spoken() -> Scripted:
    return Scripted(WORDS, delay=0.03)


async def restarted(broker: NatsServer) -> None:
    await asyncio.to_thread(broker.stop)
    await asyncio.sleep(0.1)
    await asyncio.to_thread(broker.start)


async def test_a_stream_pauses_while_the_broker_is_away(own_broker: NatsServer) -> None:
    async with process(spoken(), own_broker.url) as application:
        client = await begun(application, 3)
        await restarted(own_broker)
        await client
    assert_whole(client)


async def test_a_stream_of_another_server_pauses_too(own_broker: NatsServer) -> None:
    engine = spoken()
    async with process(engine, own_broker.url) as first, process(engine, own_broker.url) as second:
        client = await begun(first, 2)
        client.leave()
        again = come_back(second, client)
        await again.until(2)
        await restarted(own_broker)
        await again
    assert_whole(client, again)


async def test_an_answer_that_waits_too_long_ends_here_and_continues_elsewhere(
    own_broker: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_store, "PAUSE_S", 0.1)
    async with process(spoken(), own_broker.url) as first:
        client = await begun(first, 3)
        await asyncio.to_thread(own_broker.stop)
        await client
        await asyncio.to_thread(own_broker.start)
        async with process(spoken(), own_broker.url) as second:
            again = await come_back(second, client)
    (error,) = [frame for frame in client.frames() if isinstance(frame, ErrorFrame)]
    assert (error.code, error.retryable) == ("session.broker-away", True)
    assert_whole(client, again)


async def test_a_request_is_refused_while_the_broker_is_away(
    own_broker: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_store, "BEGIN_S", 0.1)
    async with process(spoken(), own_broker.url) as application:
        await application.sessions.connect()
        await asyncio.to_thread(own_broker.stop)
        refused = await Client(application, body=STATEFUL)
        plain = await Client(application, body={"prompt": "Hi"})
    assert (refused.status, refused.json["error"]["code"]) == (503, "session.broker-away")
    assert plain.status == 200


async def test_a_server_without_its_broker_does_not_start() -> None:
    async with process(spoken(), "nats://user:secret@127.0.0.1:1") as application:
        with pytest.raises(TorvynError) as caught:
            await application.sessions.connect()
    assert caught.value.code == "session.cannot-open"
    assert "secret" not in str(caught.value)


async def test_another_asgi_server_does_not_start_it_without_its_broker() -> None:
    sent: list[Any] = []

    async def receive() -> dict[str, str]:
        return {"type": "lifespan.startup"}

    async def send(message: Any) -> None:
        sent.append(message)

    async with process(spoken(), "nats://127.0.0.1:1") as application:
        await application({"type": "lifespan"}, receive, send)
    (failed,) = sent
    assert failed["type"] == "lifespan.startup.failed"
    assert "cannot open the session store" in failed["message"]


@pytest.mark.parametrize("address", ["nats://", "nats://host/a.b", "nats://host/" + "x" * 40])
def test_an_address_that_cannot_be_one_is_refused(address: str) -> None:
    with pytest.raises(TorvynError, match="not an address"):
        StoreAddress.parse(address)


async def test_a_server_that_connects_again_later_is_not_taken_for_dead(
    own_broker: NatsServer,
) -> None:
    engine = Gated()
    async with (
        process(engine, own_broker.url) as first,
        process(spoken(), own_broker.url) as second,
    ):
        client = await begun(first, 1)
        client.leave()
        again = come_back(second, client)
        await again.until(1)
        owner = first.sessions.cluster
        assert owner is not None
        await asyncio.to_thread(own_broker.stop)
        await owner.broker.close()
        # Each server tries again after as long as the broker was away at most.
        await asyncio.sleep(1.2)
        await asyncio.to_thread(own_broker.start)
        reader = second.sessions.cluster
        assert reader is not None
        await within(reader.broker.connected())
        # Long enough for the second server to ask for the first one.
        await asyncio.sleep(0.9)
        await owner.broker.open()
        engine.tokens.put_nowait("one")
        engine.tokens.put_nowait(None)
        await within(again)
    assert again.frames()[-1].finish[0].reason == "stop"
    assert [text for _, text in deltas(again)] == ["one"]
