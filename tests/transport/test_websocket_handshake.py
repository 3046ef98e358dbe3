"""The handshake of a WebSocket: who is let in, and how others are told."""

from __future__ import annotations

from typing import Any

import pytest
from calling import Client, Gated, serving, within
from speaking import Socket

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


async def test_the_path_without_a_socket_says_what_it_is() -> None:
    client = await Client(serving(Scripted("x")), "/v1/ws", method="GET")
    assert client.status == 426
    assert client.headers["upgrade"] == "websocket"
    assert client.json["error"]["code"] == "transport.upgrade-needed"
