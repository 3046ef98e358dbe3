"""The server on real sockets: clients that leave, never read, never finish a request, or attack."""

from __future__ import annotations

import random
import re
import socket
import struct
import time
from typing import Any

import pytest
from live_server import PATIENCE_S, served, wait_for
from watched_engines import CEILING_S, Numbering, Watched, peer_of

from torvyn.engine import Scripted
from torvyn.transport.listener.sockets import SEND_BYTES

PROMPT_BODY = b'{"prompt": "Hi"}'


def read_until(sock: socket.socket, mark: bytes, count: int = 1) -> bytes:
    got = b""
    while got.count(mark) < count:
        part = sock.recv(65536)
        assert part, f"the server closed after {got!r}"
        got += part
    return got


def rest_of(sock: socket.socket) -> bytes:
    """All that comes until the connection is closed or reset."""
    got = b""
    try:
        while part := sock.recv(65536):
            got += part
    except ConnectionError:
        pass
    return got


def reset(sock: socket.socket) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


@pytest.mark.promise("inference.client-leaves")
@pytest.mark.parametrize("leave", [socket.socket.close, reset], ids=["close", "reset"])
def test_the_engine_stops_when_the_client_leaves_at_any_token(leave: Any) -> None:
    engine, dice = Watched(), random.Random(5)
    with served(engine) as server:
        for _ in range(10):
            engine.was_left.clear()
            sock = server.ask(PROMPT_BODY)
            read_until(sock, b'"delta"', dice.randrange(1, 20))
            left_s = time.perf_counter()
            leave(sock)
            assert engine.was_left.wait(PATIENCE_S)
            assert engine.left_s - left_s < CEILING_S


def test_the_engine_stops_when_the_client_leaves_before_the_first_token() -> None:
    engine = Watched(pause_s=60)
    with served(engine) as server:
        sock = server.ask(PROMPT_BODY)
        assert engine.has_begun.wait(PATIENCE_S)
        sock.close()
        assert engine.was_left.wait(CEILING_S)


def test_the_engine_stops_when_the_client_of_a_whole_answer_leaves() -> None:
    engine = Watched()
    with served(engine) as server:
        asked = b'{"messages": [{"role": "user", "content": "Hi"}]}'
        sock = server.ask(asked, "/v1/chat/completions")
        assert engine.has_begun.wait(PATIENCE_S)
        sock.close()
        assert engine.was_left.wait(CEILING_S)


def test_a_client_that_never_reads_costs_little_and_is_cut() -> None:
    engine = Watched(pause_s=0, token="y" * 1000)
    with served(engine, write_timeout_s=0.5) as server:
        sock = server.ask(PROMPT_BODY, receive_bytes=4096)
        assert engine.was_left.wait(PATIENCE_S)
        assert not server.application.running.calls
        # All buffers together: ours and the kernel's on both sides.
        assert engine.made * 1000 <= 96 * 1024
        # No last chunk: whoever reads after all can tell that it was cut.
        assert not rest_of(sock).endswith(b"0\r\n\r\n")


def is_full(call: Any) -> bool:
    return bool(call.sender._sending and call.answer.usage.completion_tokens > 3)


def test_a_stop_while_the_wire_is_full_loses_nothing() -> None:
    with served(Numbering(), write_timeout_s=20) as server:
        for _ in range(5):
            sock = server.ask(PROMPT_BODY, receive_bytes=4096)
            got = read_until(sock, b'"start"')
            (call,) = wait_for(
                lambda: [c for c in server.application.running.calls.values() if is_full(c)]
            )
            server.loop.call_soon_threadsafe(call.stop)
            got += read_until(sock, b'"stopped_by":"client"')
            sock.close()
            numbers = [int(found) for found in re.findall(rb"<(\d+)>", got)]
            assert numbers == list(range(len(numbers)))
            assert len(numbers) >= 3


def test_connections_inherit_what_the_socket_was_given() -> None:
    with served(Scripted("a")) as server, server.connect() as sock:
        sock.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        read_until(sock, b"ok")
        accepted = peer_of(sock.getsockname()[1])

    # The kernel doubles what it is asked for.
    assert accepted["sndbuf"] == 2 * SEND_BYTES
    assert accepted["lowat"] == SEND_BYTES
    assert accepted["user_timeout"] == 30_000


def test_a_head_that_never_ends_is_not_waited_for() -> None:
    with served(Scripted("a"), head_timeout_s=0.3) as server, server.connect() as sock:
        sock.sendall(b"GET /healthz HTTP/1.1\r\nHost: local")
        assert b"200" not in rest_of(sock)


@pytest.mark.parametrize(
    "head",
    [
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 100_000 + b"\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * 5000 + b"\r\n",
        b"POST /v1/streams HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n"
        b"Content-Length: 5\r\n\r\n{}",
        b"POST /v1/streams HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n{}",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 200,
    ],
    ids=["long header", "many headers", "two lengths", "no length", "tls"],
)
def test_what_is_no_request_is_refused(head: bytes) -> None:
    with served(Scripted("a")) as server, server.connect() as sock:
        try:
            sock.sendall(head)
        except ConnectionError:
            return
        assert b" 200 " not in rest_of(sock)


def test_a_body_that_is_announced_too_large_is_not_read() -> None:
    with served(Scripted("a"), max_body_bytes=1000) as server, server.connect() as sock:
        head = b"POST /v1/streams HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\n\r\n"
        sock.sendall(head)
        assert b" 413 " in read_until(sock, b"transport.body-too-large")


def test_a_foreign_name_gets_no_answer() -> None:
    with served(Scripted("a")) as server, server.connect() as sock:
        sock.sendall(b"GET /flows HTTP/1.1\r\nHost: evil.example\r\n\r\n")
        assert b" 421 " in read_until(sock, b"transport.host-refused")


def test_shutting_down_gives_every_open_stream_its_end() -> None:
    with served(Watched(pause_s=0.01), shutdown_grace_s=0.4) as server:
        socks = [server.ask(PROMPT_BODY) for _ in range(50)]
        for sock in socks:
            read_until(sock, b'"type":"start"')
        server.end()
        ends = [rest_of(sock) for sock in socks]

    assert all(b'"type":"end"' in end and end.endswith(b"0\r\n\r\n") for end in ends)
    assert all(b"transport.shutting-down" in end for end in ends)


def test_while_it_shuts_down_it_answers_new_connections_once() -> None:
    with served(Watched(pause_s=0.01), shutdown_grace_s=60.0) as server:
        stream = server.ask(PROMPT_BODY)
        read_until(stream, b'"type":"delta"')
        server.begin_end()
        wait_for(lambda: server.application.running.is_draining)
        for head, status in ((b"GET /readyz", b" 503 "), (b"GET /healthz", b" 200 ")):
            with server.connect() as sock:
                # It closes the connection after one answer, also where the client asks for two.
                sock.sendall((head + b" HTTP/1.1\r\nHost: localhost\r\n\r\n") * 2)
                answer = rest_of(sock)
            assert answer.count(b"HTTP/1.1") == 1
            assert status in answer.partition(b"\r\n")[0]
            assert b"connection: close\r\n" in answer
        refusal = rest_of(server.ask(PROMPT_BODY))
        assert b" 503 " in refusal
        assert b"retry-after: 5\r\n" in refusal
        read_until(stream, b'"type":"delta"')
        stream.close()
        server.end()
        with pytest.raises(ConnectionRefusedError):
            server.connect()


def test_open_streams_have_the_whole_grace() -> None:
    with served(Watched(pause_s=0.01), shutdown_grace_s=0.4) as server:
        stream = server.ask(PROMPT_BODY)
        read_until(stream, b'"type":"delta"')
        began_s = time.monotonic()
        server.begin_end()
        read_until(stream, b"transport.shutting-down")

    assert time.monotonic() - began_s >= 0.4
