"""Requests that a proxy in front could read differently than the server does."""

from __future__ import annotations

import pytest
from live_server import served
from raw_requests import BODY, CHUNKED, GET, LENGTH, POST, statuses

from torvyn.engine import Scripted


@pytest.mark.parametrize(
    "raw",
    [
        GET + b" folded: x\r\n\r\n",
        GET + b"X: a\r\n\tfolded\r\n\r\n",
        GET + b"X : a\r\n\r\n",
        GET + b"X\r\n\r\n",
        GET + b"X: a\0b\r\n\r\n",
        GET + b"X: a\rb\r\n\r\n",
        b"GET /healthz  HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /healthz HTTP/1.1 \r\nHost: localhost\r\n\r\n",
        POST + b"Content-Length: 16\r\nContent-Length: 17\r\n\r\n" + BODY,
        POST + b"Content-Length: +16\r\n\r\n" + BODY,
        POST + b"Content-Length: 0x10\r\n\r\n" + BODY,
        POST + b"Content-Length: 16, 17\r\n\r\n" + BODY,
        POST + b"Transfer-Encoding: identity\r\n\r\n" + BODY,
        POST + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        POST.replace(b"1.1", b"1.0") + CHUNKED + b"\r\n0\r\n\r\n",
    ],
)
def test_what_can_be_read_in_two_ways_is_refused_and_nothing_after_it_is_read(raw: bytes) -> None:
    with served(Scripted("a")) as server:
        assert statuses(server, raw + GET + b"\r\n") in ([], [b"400"])


@pytest.mark.parametrize("both", [LENGTH + CHUNKED, CHUNKED + LENGTH])
def test_with_two_kinds_of_length_nothing_after_the_request_is_read(both: bytes) -> None:
    body = b"10\r\n" + BODY + b"\r\n0\r\n\r\n"
    with served(Scripted("a")) as server:
        assert len(statuses(server, POST + both + b"\r\n" + body + GET + b"\r\n")) <= 1


def test_requests_in_a_row_are_answered_in_a_row() -> None:
    chunked = b"10\r\n" + BODY + b"\r\n0\r\n\r\n"
    raw = POST + LENGTH + b"\r\n" + BODY + POST + CHUNKED + b"\r\n" + chunked + GET + b"\r\n"
    with served(Scripted("a")) as server:
        assert statuses(server, raw) == [b"200"] * 3
