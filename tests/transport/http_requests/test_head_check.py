"""Line ends and lengths that hyper would accept, and the native wire refuses."""

from __future__ import annotations

import pytest
from live_server import served
from raw_requests import BODY, CHUNKED, GET, LENGTH, POST, statuses

from torvyn.engine import Scripted


@pytest.mark.parametrize("first", [b"", GET + b"\r\n", POST + LENGTH + b"\r\n" + BODY])
@pytest.mark.parametrize(
    "raw",
    [
        b"GET /healthz HTTP/1.1\nHost: localhost\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\n",
        b"GET /healthz HTTP/1.1\nHost: localhost\n\n",
        POST + LENGTH + LENGTH + b"\r\n" + BODY,
        POST + LENGTH + CHUNKED + b"\r\n0\r\n\r\n",
        POST + CHUNKED + LENGTH + b"\r\n0\r\n\r\n",
        POST + CHUNKED + CHUNKED + b"\r\n0\r\n\r\n",
        POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        POST + CHUNKED + b"\r\n10\n" + BODY + b"\r\n0\r\n\r\n",
    ],
)
def test_an_ambiguous_request_is_a_400_wherever_it_stands(first: bytes, raw: bytes) -> None:
    before = [b"200"] if first else []
    with served(Scripted("a")) as server:
        assert statuses(server, first + raw + GET + b"\r\n") == [*before, b"400"]
