"""The WebSocket handshake: which sockets are accepted, and how others are rejected."""

from __future__ import annotations

from typing import Any

import pytest
from asgi_client import Client, Gated, serving, within
from websocket_client import START, Socket

from torvyn.engine import Scripted


async def test_so_many_sockets_and_no_more_are_accepted() -> None:
    application = serving(Gated(), max_streams=1)
    denials = {"extensions": {"websocket.http.response": {}}}
    async with Socket(application), Socket(application, **denials) as other:
        assert other.sent[0]["status"] == 429


async def test_without_denials_a_refused_handshake_is_a_closed_socket() -> None:
    headers = {"origin": "https://elsewhere.example"}
    async with Socket(serving(Scripted("x")), headers) as socket:
        assert socket.sent[0]["code"] == 1008
        assert socket.sent[0]["reason"] == "transport.origin-refused"


@pytest.mark.parametrize(
    ("headers", "path", "status"),
    [
        ({"host": "evil.example"}, "/v1/ws", 421),
        ({"origin": "null"}, "/v1/ws", 403),
        ({}, "/v1/wss", 404),
    ],
)
async def test_a_handshake_is_refused_with_a_status(headers: Any, path: str, status: int) -> None:
    denials = {"websocket.http.response": {}}
    application = serving(Scripted("x"))
    async with Socket(application, headers, path=path, extensions=denials) as socket:
        await within(socket.task)
    assert [m["type"] for m in socket.sent] == [
        "websocket.http.response.start",
        "websocket.http.response.body",
    ]
    assert socket.sent[0]["status"] == status


async def test_a_plain_request_to_the_websocket_needs_an_upgrade() -> None:
    client = await Client(serving(Scripted("x")), "/v1/ws", method="GET")
    assert client.status == 426
    assert client.headers["upgrade"] == "websocket"
    assert client.json["error"]["code"] == "transport.upgrade-needed"


async def test_a_page_shows_its_key_as_a_subprotocol_and_is_answered_with_the_other(keyed) -> None:
    offered = ["torvyn.v1", f"torvyn.key.{keyed.keys['first']}"]
    headers = {"sec-websocket-protocol": ", ".join(offered)}
    async with Socket(keyed.serve(Scripted("a b")), headers, subprotocols=offered) as socket:
        assert socket.sent[0] == {"type": "websocket.accept", "subprotocol": "torvyn.v1"}
        socket.say(START)
        await socket.until_got("end")


@pytest.mark.parametrize("headers", [{}, {"authorization": "Bearer tvk_x"}])
async def test_without_a_key_there_is_no_socket(keyed, headers: Any) -> None:
    denials = {"websocket.http.response": {}}
    application = keyed.serve(Scripted("a"))
    async with Socket(application, headers, extensions=denials) as socket:
        await within(socket.task)
    assert socket.sent[0]["status"] == 401


async def test_a_stream_of_another_tenant_is_unknown_on_a_socket(keyed) -> None:
    keyed.add("second", tenant="others")
    application = keyed.serve(Gated())
    shown = [{"authorization": f"Bearer {keyed.keys[name]}"} for name in ("first", "second")]
    async with Socket(application, shown[0]) as first, Socket(application, shown[1]) as second:
        first.say(START)
        id = (await first.until_got("start"))["id"]
        for kind in ("observe", "resume"):
            second.say({"type": kind, "stream_id": kind, "id": id})
            assert (await second.until_got("refused", kind))["code"] == "transport.stream-unknown"
