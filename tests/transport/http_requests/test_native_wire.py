"""What only the native wire does: half-closed connections, strict hosts, idle connections."""

from __future__ import annotations

import asyncio
import itertools
import os
import re
import resource
import socket
import time
from contextlib import ExitStack
from typing import Any

import pytest
from live_server import PATIENCE_S, Served, served, wait_for
from raw_call import RawCall
from watched_engines import Watched

from torvyn.engine import Scripted
from torvyn.transport.http.body_limit import MAX_BODIES

HEAD = b"Host: localhost\r\nContent-Type: application/json\r\n"
CHAT = b'{"messages": [{"role": "user", "content": "Hi"}], "stream": %s}'


def ask(server: Served, raw: bytes) -> bytes:
    """Everything that comes after these bytes, until the server closes."""
    with server.connect() as sock:
        sock.sendall(raw)
        return rest_of(sock)


def rest_of(sock: socket.socket) -> bytes:
    got = b""
    while part := sock.recv(65536):
        got += part
    return got


def post(path: bytes, body: bytes) -> bytes:
    return b"POST %s HTTP/1.1\r\n%sContent-Length: %d\r\n\r\n%s" % (path, HEAD, len(body), body)


def test_a_client_that_closes_its_half_still_gets_its_stream() -> None:
    with served(Scripted("one two three", delay=0.05)) as server, server.connect() as sock:
        sock.sendall(post(b"/v1/chat/completions", CHAT % b"true"))
        sock.shutdown(socket.SHUT_WR)
        assert b"three" in (got := rest_of(sock))
        assert b"[DONE]" in got


@pytest.mark.parametrize("query", [b"", b"?observe=1"])
def test_a_client_that_closes_its_half_still_gets_a_stream_that_runs_already(query: bytes) -> None:
    engine = Scripted("one two three", delay=0.05)
    with (
        served(engine, first_byte_wait_s=0.0) as server,
        server.ask(b'{"prompt": "x", "stateful": true}') as first,
        server.connect() as sock,
    ):
        got = b""
        while (start := re.search(rb'"id":"([^"]+)"', got)) is None:
            got += first.recv(65536)
        # The request and its end arrive together.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
        sock.sendall(b"GET /v1/streams/%s%s HTTP/1.1\r\n%s\r\n" % (start[1], query, HEAD))
        sock.shutdown(socket.SHUT_WR)
        rest = rest_of(sock)
    assert b"three" in rest
    assert b'"finish"' in rest


@pytest.mark.parametrize("wait_s", [0.0, 60.0])
def test_a_client_that_is_gone_behind_its_half_is_noticed_without_a_token(wait_s: float) -> None:
    engine = Watched(pause_s=60)
    with served(engine, first_byte_wait_s=wait_s) as server:
        with server.connect() as sock:
            sock.sendall(post(b"/v1/chat/completions", CHAT % b"true"))
            if wait_s:
                wait_for(lambda: server.application.running.calls)
            else:
                assert b"200 OK" in sock.recv(65536)
        assert engine.was_left.wait(PATIENCE_S)


def test_a_client_that_has_read_everything_and_is_gone_is_noticed_without_a_token() -> None:
    engine = Watched(pause_s=60)
    with served(engine, first_byte_wait_s=0.0) as server:
        with server.ask(b'{"prompt": "x"}') as sock:
            received = b""
            while b'"start"' not in received:
                received += sock.recv(65536)
        assert engine.was_left.wait(PATIENCE_S)


def test_an_answer_over_http2_that_ended_unread_is_reset() -> None:
    # More than the first window, but no more than the server keeps.
    engine = Scripted(" ".join("y" * 1000 for _ in range(70)))
    head = {":path": "/v1/streams", "content-type": "application/json"}
    with served(engine, write_timeout_s=0.3) as server:
        call = RawCall(f"127.0.0.1:{server.port}", **head)
        call.send(b'{"prompt": "x"}', is_last=True)
        call.read_to_end()

    assert len(call.data) == 65535, "the first window"
    assert call.reset is not None


def test_a_whole_answer_is_cancelled_by_the_end_of_its_connection() -> None:
    engine = Watched(pause_s=60)
    with served(engine) as server, server.connect() as sock:
        sock.sendall(post(b"/v1/chat/completions", CHAT % b"false"))
        wait_for(lambda: server.application.running.calls)
        sock.shutdown(socket.SHUT_WR)
        assert engine.was_left.wait(PATIENCE_S)


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n", b"400"),
        (b"GET http://localhost/healthz HTTP/1.1\r\nHost: other.example\r\n", b"400"),
        (b"GET http://evil.example/healthz HTTP/1.1\r\nHost: evil.example\r\n", b"421"),
        (b"GET http://localhost/healthz HTTP/1.1\r\nHost: localhost\r\n", b"200"),
        (b"HEAD /healthz HTTP/1.1\r\nHost: localhost\r\n", b"200"),
    ],
)
def test_a_request_is_for_one_host(head: bytes, status: bytes) -> None:
    with served(Scripted("a")) as server:
        answer = ask(server, head + b"Connection: close\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 " + status)
    assert not head.startswith(b"HEAD") or answer.endswith(b"\r\n\r\n")


@pytest.mark.parametrize("chunk", [b"zz\r\n{}\r\n0\r\n\r\n", b"2\r\n{}xx0\r\n\r\n"])
def test_malformed_chunks_are_the_clients_mistake(chunk: bytes) -> None:
    head = b"POST /v1/streams HTTP/1.1\r\n%sTransfer-Encoding: chunked\r\n\r\n" % HEAD
    with served(Scripted("a")) as server:
        assert b"transport.body-malformed" in ask(server, head + chunk)


def test_when_bodies_are_too_much_together_the_largest_makes_room() -> None:
    head = b"POST /v1/streams HTTP/1.1\r\n%sContent-Length: 1000\r\n\r\n" % HEAD
    with served(Scripted("a"), max_body_bytes=1000) as server, ExitStack() as stack:
        socks = [stack.enter_context(server.connect()) for _ in range(MAX_BODIES + 2)]
        sizes = [950, *[990] * MAX_BODIES, 999]
        for sock, size in zip(socks, sizes, strict=True):
            sock.sendall(head + b" " * size)
        assert b" 408 " in rest_of(socks[-1])
        socks[0].sendall(b" " * 50)
        assert b"transport.bad-json" in socks[0].recv(65536)


def test_a_connection_is_kept_for_as_long_as_the_setting_says() -> None:
    with served(Scripted("a"), keep_alive_s=0.3, head_timeout_s=0.2) as server:
        began_s = time.monotonic()
        answer = ask(server, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200")
    assert 0.3 <= time.monotonic() - began_s < PATIENCE_S


def test_a_connection_that_sends_nothing_is_closed() -> None:
    with served(Scripted("a"), head_timeout_s=0.2) as server:
        assert ask(server, b"") == b""
        assert ask(server, b"GET /healthz HTTP/1.1\r\nHo") == b""


def test_a_large_whole_answer_is_not_sent_in_small_pieces() -> None:
    text = "x" * 4_000_000
    with served(Scripted(text)) as server:
        began_s = time.monotonic()
        request = post(b"/v1/chat/completions", CHAT % b"false")
        answer = ask(server, request.replace(b"Host:", b"Connection: close\r\nHost:"))
    assert len(re.sub(rb"[^x]", b"", answer)) >= len(text)
    assert time.monotonic() - began_s < 1.5


def test_running_out_of_descriptors_is_logged_and_passes(caplog: pytest.LogCaptureFixture) -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with served(Scripted("a")) as server, socket.socket() as sock:
        sock.settimeout(PATIENCE_S)
        # No descriptor is left: the kernel completes the connection, and the server cannot take it.
        free = next(n for n in itertools.count() if not os.path.exists(f"/proc/self/fd/{n}"))
        resource.setrlimit(resource.RLIMIT_NOFILE, (free, limits[1]))
        try:
            sock.connect(("127.0.0.1", server.port))
            wait_for(lambda: "cannot be accepted" in caplog.text)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        sock.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert b"200 OK" in rest_of(sock)


def test_events_of_many_streams_arrive_whole_and_in_order() -> None:
    words = " ".join(str(number) for number in range(200))

    async def read(port: int) -> list[str]:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        request = post(b"/v1/chat/completions", CHAT % b"true")
        writer.write(request.replace(b"Host:", b"Connection: close\r\nHost:"))
        answer = (await reader.read()).decode()
        writer.close()
        return re.findall(r'"content":"([^"]*)"', answer)

    async def read_all(port: int) -> Any:
        return await asyncio.gather(*[read(port) for _ in range(50)])

    with served(Scripted(words)) as server:
        for texts in asyncio.run(read_all(server.port)):
            assert "".join(texts) == words
