"""Requests as bytes, and the statuses that come back."""

from __future__ import annotations

from live_server import Served

GET = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
POST = b"POST /v1/streams HTTP/1.1\r\nHost: localhost\r\n"
BODY = b'{"prompt": "Hi"}'
CHUNKED = b"Transfer-Encoding: chunked\r\n"
LENGTH = b"Content-Length: 16\r\n"


def statuses(server: Served, raw: bytes) -> list[bytes]:
    """Of the responses until the server closes, or the client has waited for a second."""
    with server.connect() as sock:
        sock.settimeout(1)
        got = b""
        try:
            sock.sendall(raw)
            while part := sock.recv(65536):
                got += part
        except (ConnectionError, TimeoutError):
            pass
    return [part[:3] for part in got.split(b"HTTP/1.1 ")[1:]]
