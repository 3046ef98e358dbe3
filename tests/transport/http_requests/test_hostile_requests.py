"""Hostile requests: they cost the server little, and other clients nothing."""

from __future__ import annotations

import asyncio
import gc
import json
import time
import weakref
from pathlib import Path
from typing import Any

import pytest
from asgi_client import PATIENCE_S, PROMPT_BODY, Client, Gated, serving, within
from websocket_client import Socket

from torvyn.engine import Scripted
from torvyn.serve import Application
from torvyn.transport.http.body_limit import MAX_BODIES

_MOST_S = 1.0
"""Of computing, for an answer of a millisecond: none of these may cost more than what is sent."""


class Body(bytearray):
    """Bytes whose end is noticed."""


async def test_nothing_is_kept_of_a_body_whose_client_disconnects() -> None:
    part = Body(b"{" * 1000)
    incoming: list[dict[str, Any]] = [
        {"type": "http.disconnect"},
        {"type": "http.request", "body": part, "more_body": True},
    ]

    async def receive() -> Any:
        return incoming.pop()

    headers = [(b"host", b"localhost")]
    scope = {"type": "http", "method": "POST", "path": "/v1/streams", "headers": headers}
    kept = weakref.ref(part)
    await serving(Scripted("a"))(scope, receive, receive)
    del part
    gc.collect()

    assert kept() is None


class Text(str):
    """Text whose end is noticed."""


async def test_nothing_is_kept_of_a_message_that_was_handled() -> None:
    async with Socket(serving(Scripted("a"))) as socket:
        message = Text('{"type":"ping"}'.ljust(1000))
        kept = weakref.ref(message)
        socket.say_raw(message)
        del message
        await socket.until_got("pong")
        async with asyncio.timeout(PATIENCE_S):
            while kept() is not None:
                await asyncio.sleep(0)


class Sending:
    """A request whose body comes as the test sends it, and does not end."""

    def __init__(self, application: Application) -> None:
        self.sent: list[Any] = []
        self._parts: asyncio.Queue[Any] = asyncio.Queue()
        headers = [(b"host", b"localhost")]
        scope = {"type": "http", "method": "POST", "path": "/v1/streams", "headers": headers}
        self.task = asyncio.ensure_future(application(scope, self._parts.get, self._send))

    async def _send(self, message: Any) -> None:
        self.sent.append(message)

    async def send(self, part: bytes) -> None:
        self._parts.put_nowait({"type": "http.request", "body": part, "more_body": True})
        while not self._parts.empty():
            await asyncio.sleep(0)


async def test_when_bodies_are_too_much_together_the_largest_makes_room() -> None:
    application = serving(Scripted("a"), max_body_bytes=100)
    large = [Sending(application) for _ in range(MAX_BODIES)]
    for body in large:
        await body.send(b" " * 100)
    small = Sending(application)
    await small.send(b" ")
    await asyncio.wait([body.task for body in large], return_when=asyncio.FIRST_COMPLETED)

    assert [body.sent[0]["status"] for body in large if body.sent] == [408]
    for body in (*large, small):
        body.task.cancel()


async def test_a_second_host_does_not_stand_in_for_the_first() -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"host", b"evil.example"), (b"host", b"localhost")]
    scope = {"type": "http", "method": "GET", "path": "/healthz", "headers": headers}
    await serving(Scripted("a"))(scope, send, send)

    assert sent[0]["status"] == 421


@pytest.mark.parametrize(
    ("option", "value"),
    [("temperature", "a-" * 20_000), ("seed", 10**400), ("n", "x" * 100_000), ("priority", "a-b")],
)
async def test_what_is_wrong_is_quoted_shortly(option: str, value: Any) -> None:
    began_s = time.thread_time()
    client = await Client(serving(Scripted("a")), body={**PROMPT_BODY, option: value})

    assert client.json["error"]["code"] == "engine.request-invalid"
    assert len(client.body) < 500
    assert time.thread_time() - began_s < _MOST_S


async def test_many_problems_are_reported_as_a_few_and_a_count() -> None:
    client = await Client(serving(Scripted("a")), body={"messages": [1] * 50_000})

    assert client.json["error"]["message"].endswith("; and 49992 more")
    assert len(client.body) < 2000


async def test_a_name_of_many_hyphens_is_refused_as_fast_as_another() -> None:
    began_s = time.thread_time()
    client = await Client(serving(Scripted("a")), headers={"host": "a-" * 14_000}, body=PROMPT_BODY)

    assert client.status == 421
    assert len(client.body) < 500
    assert time.thread_time() - began_s < _MOST_S


@pytest.mark.parametrize("field", ["prompt", "stop", "user", "flow", "unknown"])
async def test_half_of_a_surrogate_pair_is_no_text(field: str) -> None:
    body = json.dumps({**PROMPT_BODY, field: "a\ud83d"}).encode()
    client = await Client(serving(Scripted("a")), body=body)

    assert (client.status, client.json["error"]["code"]) == (400, "transport.bad-json")


async def test_both_halves_of_a_surrogate_pair_are_a_character() -> None:
    client = await Client(serving(Scripted("a")), body=rb'{"prompt": "\ud83d\ude00"}')

    assert client.status == 200


@pytest.mark.parametrize("id", ["a\ud800", "a b", "x" * 129, "\x00", "é"])
async def test_what_cannot_be_an_id_is_not_looked_for_in_the_store(tmp_path: Path, id: str) -> None:
    engine = Gated()
    application = serving(engine, session_store=str(tmp_path / "sessions.db"))
    other = Client(application, body={**PROMPT_BODY, "stateful": True})
    await within(engine.has_begun.wait())
    client = await Client(application, f"/v1/streams/{id}", method="GET")
    engine.tokens.put_nowait("all")
    engine.tokens.put_nowait(None)
    await other
    application.sessions.close()

    assert client.json["error"]["code"] == "transport.stream-unknown"
    assert other.frames()[-1].finish[0].reason == "stop"


async def test_a_message_with_half_a_character_is_refused_and_the_socket_goes_on() -> None:
    async with Socket(serving(Scripted("a"))) as socket:
        socket.say_raw(r'{"type": "resume", "stream_id": "s", "id": "\ud800"}')
        socket.say(type="ping")
        await socket.until_got("pong")

        assert socket.got[0]["code"] == "transport.bad-json"
