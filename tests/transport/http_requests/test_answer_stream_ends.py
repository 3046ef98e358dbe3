"""How streams end: left, stopped, timed out, shut down, unread; and the engine with each."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from asgi_client import PROMPT_BODY, Client, Endless, Gated, serving, texts, within

from torvyn import Flow
from torvyn.components import Blocklist
from torvyn.engine import ChoiceStep, Engine, Request, Scripted, Service, Step
from torvyn.errors import Unavailable
from torvyn.serve import ServerSettings, app

CHAT = {"messages": [{"role": "user", "content": "Hi"}], "stream": True}


class Waiting(Engine):
    """Waits for something of which the test says how it ends."""

    name = "waiting"

    def __init__(self) -> None:
        super().__init__()
        self.has_begun = asyncio.Event()

    async def steps(self, request: Request) -> AsyncIterator[Step]:
        self.awaited: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.has_begun.set()
        try:
            text = await self.awaited
        except OSError as error:
            raise Unavailable(f"the upstream is gone: {error}") from error
        yield Step((ChoiceStep(0, text=text, finish_reason="stop"),))


async def test_an_engine_whose_wait_fails_makes_the_error_of_it_that_clients_see() -> None:
    engine = Waiting()
    client = Client(serving(engine), body=PROMPT_BODY)
    await within(engine.has_begun.wait())

    engine.awaited.set_exception(ConnectionRefusedError("refused"))
    await client

    assert client.status == 503
    assert client.json["error"]["message"] == "the upstream is gone: refused"


@pytest.mark.promise("inference.client-leaves")
@pytest.mark.parametrize("said", [0, 1, 3])
async def test_the_engine_hears_at_once_that_the_client_left(said: int) -> None:
    engine = Gated()
    application = serving(engine)
    client = Client(application, body=PROMPT_BODY)
    for _ in range(said):
        engine.tokens.put_nowait("x")
    await client.until(1)
    await within(engine.has_begun.wait())
    client.leave()
    await within(engine.was_left.wait())
    await client

    assert not application.running.calls
    assert application.metrics.flows["chat"].answers == {"cancelled": 1}


async def test_a_client_that_leaves_while_it_does_not_read_frees_the_engine() -> None:
    engine = Gated()
    client = Client(serving(engine), body=PROMPT_BODY)
    await client.until(1)
    client.may_send.clear()
    engine.tokens.put_nowait("x")
    await within(engine.has_begun.wait())
    client.leave()
    await within(engine.was_left.wait())
    client.may_send.set()
    await client


async def test_stopping_ends_well_and_releases_the_text_that_was_held_back() -> None:
    engine = Gated()
    application = serving(engine)
    client = Client(application, body={**PROMPT_BODY, "stop": ["END"]})
    for token in ("a", "E", "N"):
        engine.tokens.put_nowait(token)
    await client.until(1)
    (call,) = application.running.calls.values()
    stopped = await Client(application, f"/v1/streams/{call.id}", method="DELETE")
    await client

    assert stopped.status == 202
    assert "".join(texts(client)) == "aEN"
    (finish,) = client.frames()[-1].finish
    assert (finish.reason, finish.stopped_by) == ("stop", "client")
    assert engine.was_left.is_set()


async def test_stopping_releases_the_text_that_a_guard_held_back() -> None:
    engine = Gated()
    guard = {"words": ["secret"], "mode": "stream", "action": "block"}
    service = Service("chat", engine, make_flow=lambda: Flow(Blocklist(guard)))
    application = app({"chat": service}, ServerSettings())
    client = Client(application, body=PROMPT_BODY)
    for token in ("a", " sec"):
        engine.tokens.put_nowait(token)
    await client.until(2)
    next(iter(application.running.calls.values())).stop()
    await client

    assert "".join(texts(client)) == "a sec"
    assert client.frames()[-1].finish[0].stopped_by == "client"


async def test_a_stop_before_the_first_token_is_an_empty_answer() -> None:
    engine = Gated()
    application = serving(engine)
    client = Client(application, body=PROMPT_BODY)
    await within(engine.has_begun.wait())
    next(iter(application.running.calls.values())).stop()
    await client

    assert texts(client) == []
    assert client.frames()[-1].finish[0].reason == "stop"


async def test_a_deadline_is_reported_and_ends_the_engine() -> None:
    engine = Gated()
    client = Client(serving(engine, deadline_s=0.02), body=PROMPT_BODY)
    engine.tokens.put_nowait("x")
    await client

    *_, error, end = client.frames()
    assert error.code == "transport.deadline"
    assert [finish.reason for finish in end.finish] == ["error"]
    assert engine.was_left.is_set()


async def test_shutting_down_is_reported_in_the_dialect_of_the_client() -> None:
    application = serving(Gated(), shutdown_grace_s=0.05)
    clients = [
        Client(application, body=PROMPT_BODY),
        Client(application, "/v1/chat/completions", CHAT),
    ]
    await asyncio.gather(*(client.until(1) for client in clients))
    await within(application.drain())
    own, chat = await asyncio.gather(*clients)

    assert own.frames()[-2].code == "transport.shutting-down"
    assert own.is_over
    assert chat.body.endswith(b"data: [DONE]\n\n")
    assert b'"code":"transport.shutting-down"' in chat.body
    assert chat.body.count(b'{"error":') == 1


async def test_a_request_during_shutdown_is_rejected() -> None:
    application = serving(Scripted("a"))
    await application.drain()

    assert (await Client(application, body=PROMPT_BODY)).status == 503
    assert (await Client(application, "/readyz", method="GET")).status == 503
    assert (await Client(application, "/healthz", method="GET")).status == 200


async def test_a_reader_that_stopped_is_cut_and_the_engine_with_it() -> None:
    engine = Gated()
    client = Client(serving(engine, write_timeout_s=0.05, heartbeat_s=60), body=PROMPT_BODY)
    await client.until(1)
    client.may_send.clear()
    engine.tokens.put_nowait("x")
    await client

    assert len(client.chunks) == 1
    assert engine.was_left.is_set()


@pytest.mark.promise("inference.back-pressure")
async def test_a_slow_reader_slows_the_engine() -> None:
    engine = Endless()
    client = Client(serving(engine), body=PROMPT_BODY)
    await client.until(2)
    client.may_send.clear()
    sent = len(client.chunks)
    # Many turns of the loop in which the engine could run ahead.
    for _ in range(1000):
        await asyncio.sleep(0)
    # What was sent, the chunk that waits at the wire, and the step in the engine's hand.
    assert engine.made <= 16 * (sent + 1) + 1
    client.leave()
    await within(engine.was_left.wait())
    client.may_send.set()
    await client
