"""WebSockets on the native wire: the handshake, and limits that hold against any client."""

from __future__ import annotations

import asyncio
import json
import socket
from contextlib import ExitStack

import pytest
from asgi_client import Endless
from live_server import PATIENCE_S, Served, served, wait_for
from raw_websocket import ACCEPT, FIRST, PING, PONG, TEXT, accepted, asking, frame, handshake, said

from torvyn.engine import Scripted
from torvyn.transport.http.body_limit import MAX_BODIES

START = {"type": "start", "stream_id": "s", "prompt": "Hi"}


def test_a_handshake_is_answered_as_the_standard_says() -> None:
    with (
        served(Scripted("x")) as server,
        asking(server, handshake(Sec_WebSocket_Extensions="permessage-deflate")) as raw,
    ):
        head = raw.head().lower()
    assert head.startswith("http/1.1 101 switching protocols\r\n")
    assert f"sec-websocket-accept: {ACCEPT}".lower() in head
    assert "upgrade: websocket\r\nconnection: upgrade" in head
    assert "extensions" not in head
    assert "sec-websocket-protocol" not in head
    assert "transfer-encoding" not in head


def test_the_subprotocol_is_chosen_from_what_the_client_offers() -> None:
    offered = handshake(Sec_WebSocket_Protocol="other, torvyn.v1")
    with served(Scripted("x")) as server, asking(server, offered) as raw:
        assert "sec-websocket-protocol: torvyn.v1" in raw.head().lower()


@pytest.mark.parametrize(
    ("request_", "status", "header"),
    [
        (handshake(Sec_WebSocket_Version="12"), 426, "sec-websocket-version: 13"),
        (handshake(Sec_WebSocket_Version=None), 426, "sec-websocket-version: 13"),
        (handshake(Sec_WebSocket_Key="short"), 400, ""),
        (handshake(Sec_WebSocket_Key=None), 400, ""),
        (handshake(Upgrade="h2c"), 426, "upgrade: websocket"),
        (handshake(Connection="keep-alive"), 426, "upgrade: websocket"),
        (handshake("GET /v1/ws HTTP/1.0"), 426, "upgrade: websocket"),
        (handshake("POST /v1/ws HTTP/1.1", Content_Length="0"), 405, ""),
        (handshake("GET /v1/other HTTP/1.1"), 404, ""),
        (handshake(Host="evil.example"), 421, ""),
        (handshake().replace(b"\r\n\r\n", b"\r\nHost: localhost\r\n\r\n"), 400, ""),
        (handshake(Origin="https://elsewhere.example"), 403, ""),
    ],
)
def test_a_handshake_is_denied_with_a_status(request_: bytes, status: int, header: str) -> None:
    with served(Scripted("x")) as server, asking(server, request_) as raw:
        head = raw.head().lower()
        assert f" {status} " in head.splitlines()[0]
        assert header in head
        assert not server.application.running.channels


def test_a_connection_goes_on_after_a_denial() -> None:
    with (
        served(Scripted("x")) as server,
        asking(server, handshake("GET /other HTTP/1.1")) as raw,
    ):
        head = raw.head()
        assert " 404 " in head
        raw.take(int(head.lower().partition("content-length: ")[2].split("\r\n")[0]))
        raw.send(handshake(), said(type="ping"))
        assert " 101 " in raw.head()
        assert raw.hear() == {"type": "pong"}


@pytest.mark.parametrize(
    ("sent", "answer"),
    [
        (frame(PING, "x" * 125), (PONG, b"x" * 125)),
        (said(type="ping"), (TEXT, b'{"type":"pong"}')),
        (frame(TEXT, "not JSON"), None),
    ],
)
def test_no_more_is_read_while_answers_are_not(sent: bytes, answer: tuple[int, bytes]) -> None:
    with served(Scripted("x")) as server, accepted(server, receive_bytes=4096) as raw:
        raw.sock.settimeout(0.5)
        total = 0
        # The buffers of both kernels fill up; the server keeps little beside them.
        with pytest.raises(TimeoutError):
            while total < 64 << 20:
                total += raw.sock.send(sent * 100)
        raw.sock.settimeout(PATIENCE_S)
        assert answer is None or raw.read() == answer


def test_a_client_that_reads_nothing_is_heard_and_stops_its_engine() -> None:
    engine = Endless()
    with served(engine) as server, accepted(server, said(**START), receive_bytes=4096) as raw:
        made = 0
        while engine.made > made or not made:
            made = engine.made
            wait_for(lambda: _turn(server))
        raw.send(said(type="cancel", stream_id="s"))
        wait_for(engine.was_left.is_set)


def _turn(server: Served) -> bool:
    """Some turns of the server's loop."""
    asyncio.run_coroutine_threadsafe(asyncio.sleep(0.05), server.loop).result()
    return True


def test_unfinished_messages_are_limited_together() -> None:
    count = MAX_BODIES + 10
    with served(Scripted("x"), max_body_bytes=10_000) as server, ExitStack() as stack:
        for _ in range(count):
            raw = stack.enter_context(accepted(server))
            raw.send(frame(FIRST, "x" * 9_900))
        # The largest make room for the others, long before their time is over.
        wait_for(lambda: 0 < len(server.application.running.channels) <= MAX_BODIES)


def test_streams_of_a_socket_are_not_held_up_by_a_slow_message() -> None:
    with served(Scripted("one two three")) as server, accepted(server) as raw:
        raw.send(said(**START), frame(TEXT, json.dumps({"type": "ping"}))[:-1])
        kinds = [raw.hear()["type"]]
        while kinds[-1] != "end":
            kinds.append(raw.hear()["type"])
        assert kinds[0] == "start"


def test_a_half_closed_socket_is_a_client_that_has_left() -> None:
    engine = Endless()
    with served(engine) as server, accepted(server, said(**START)) as raw:
        raw.sock.shutdown(socket.SHUT_WR)
        wait_for(engine.was_left.is_set)
        wait_for(lambda: not server.application.running.channels)
