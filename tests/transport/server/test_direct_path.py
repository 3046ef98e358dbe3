"""Text on the direct path: from an upstream through guards to a client, without a step in Python.

Each answer is given twice, on the direct path and on the ordinary one: nothing that a client or an
operator can see may differ.
"""

from __future__ import annotations

import asyncio
import gzip
import http.client
import socket
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from live_server import PATIENCE_S, Served, served, wait_for
from told_answers import GUARDS, frames_of, on_both_paths

from fake_upstream import DONE, HELLO, Exchange, delta, event, running, says
from torvyn.engine import Service
from torvyn.engine.answer.direct_path import DirectPath
from torvyn.engine.openai.engine import OpenAI

USAGE = event({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4}})


@contextmanager
def gateway(
    reply: Any,
    guard: str = "none",
    idle_timeout_s: float = 60.0,
    first_token_timeout_s: float = 60.0,
    **settings: Any,
) -> Iterator[Served]:
    limits = {"idle_timeout_s": idle_timeout_s, "first_token_timeout_s": first_token_timeout_s}
    with running(reply) as upstream:
        options: dict[str, Any] = {"retries": 0, **limits}
        with OpenAI(base_url=upstream.url, model="m", **options) as engine:
            service = Service("chat", engine, make_flow=GUARDS[guard])
            with served({"chat": service}, **{"first_byte_wait_s": 10.0, **settings}) as server:
                yield server


@pytest.fixture
def direct_tokens(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many tokens each direct path has taken over, as they are counted."""
    counted: list[int] = []
    count = DirectPath.count

    def counting(self: DirectPath) -> None:
        before = self._response.choices[0].tokens
        count(self)
        counted.append(self._response.choices[0].tokens - before)

    monkeypatch.setattr(DirectPath, "count", counting)
    return counted


def both(monkeypatch: pytest.MonkeyPatch, reply: Any, guard: str, **body: Any) -> list[Any]:
    return on_both_paths(monkeypatch, lambda: gateway(reply, guard), guard, **body)


TEXTS = ("One ", "two ", "ba", "d ", "worse", ", é", "👩‍👧 ", "bad")
PARTS = {
    "reasoning": delta({"reasoning_content": "Hm."}),
    "call": delta({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f"}}]}),
    "half": b'data: {"choices":[{"index":0,"delta":{"content":"\\ud83d"}}]}\n\n',
    "comment": b": still here\n\n",
    "usage": USAGE,
    "unknown": event({"choices": [{"index": 0, "delta": {"content": "x"}}], "x": {"y": 1}}),
}
ENDS = {
    "stop": (delta(finish="stop"), DONE),
    "length": (delta("end", finish="length"), USAGE, DONE),
    "no done": (delta(finish="stop"),),
    "cut": (),
    "error": (event({"error": {"message": "boom"}}),),
    "garbage": (b"data: {no json}\n\n",),
    "other choice": (delta("x", index=3),),
}
chunk = st.one_of(
    st.sampled_from(TEXTS).map(delta), st.sampled_from(TEXTS).map(delta), st.sampled_from([*PARTS])
)


@settings(max_examples=60)
@given(
    parts=st.lists(chunk, max_size=12),
    end=st.sampled_from([*ENDS]),
    guard=st.sampled_from([*GUARDS]),
    body=st.sampled_from([{}, {"stop": "wo"}, {"max_tokens": 3}]),
)
def test_nobody_can_tell_which_path_a_text_took(
    parts: list[bytes | str], end: str, guard: str, body: dict[str, Any]
) -> None:
    chunks = [PARTS[part] if isinstance(part, str) else part for part in parts]
    reply = says(HELLO[0], *chunks, *ENDS[end])
    with pytest.MonkeyPatch.context() as patch:
        direct, ordinary = both(patch, reply, guard, **body)

    assert direct == ordinary


@pytest.mark.parametrize("guard", ["none", "replace"])
def test_text_takes_the_direct_path(guard: str, direct_tokens: list[int]) -> None:
    words = [delta(f"word{place} ") for place in range(100)]
    with gateway(says(HELLO[0], *words, delta(finish="stop"), DONE), guard) as server:
        frames = frames_of(server)

    assert "".join(frame.get("text", "") for frame in frames).split()[-1] == "word99"
    assert frames[-1]["usage"]["completion_tokens"] == 100
    assert 50 < sum(direct_tokens) <= 100


def test_the_first_text_takes_it_too(direct_tokens: list[int]) -> None:
    with gateway(says(HELLO[0], delta("word "), delta(finish="stop"), DONE)) as server:
        frames = frames_of(server)

    assert [frame["text"] for frame in frames if "text" in frame] == ["word "]
    assert (sum(direct_tokens), "ttft_s" in frames[-1]["timing"]) == (1, True)


@pytest.mark.parametrize("status", [200, 500])
def test_what_is_no_plain_event_stream_does_not(status: int, direct_tokens: list[int]) -> None:
    data = gzip.compress(HELLO[0] + delta("word ") + delta(finish="stop") + DONE)
    kind = "Content-Type: text/event-stream\r\nContent-Encoding: gzip"
    head = f"HTTP/1.1 {status} Word\r\n{kind}\r\nContent-Length: {len(data)}\r\n\r\n".encode()
    with gateway(lambda exchange: exchange.send(head + data)) as server:
        frames = frames_of(server)

    assert any(frame.get("text") == "word " for frame in frames) == (status == 200)
    assert (frames[0].get("status") == 502) == (status == 500)
    assert sum(direct_tokens) == 0


@pytest.mark.parametrize("body", [{"n": 2}, {"stop": "x"}, {"logprobs": True}, {"stateful": True}])
def test_what_python_must_see_does_not(body: dict[str, Any], direct_tokens: list[int]) -> None:
    words = [delta(f"word{place} ") for place in range(20)]
    with gateway(says(HELLO[0], *words, delta(finish="stop"), DONE)) as server:
        frames_of(server, **body)

    assert sum(direct_tokens) == 0


class Endless:
    """Sends words until its client has left; counts them."""

    def __init__(self, pause_s: float = 0.0) -> None:
        self.sent = 0
        self._pause_s = pause_s
        self.was_left = threading.Event()

    async def __call__(self, exchange: Exchange) -> None:
        await exchange.begin()
        await exchange.chunk(HELLO[0])
        with suppress(ConnectionError):
            while not exchange.reader.at_eof():
                await exchange.chunk(delta(f"word{self.sent} "))
                self.sent += 1
                await asyncio.sleep(self._pause_s)
        self.was_left.set()


def test_a_client_that_leaves_stops_the_upstream(direct_tokens: list[int]) -> None:
    reply = Endless()
    with gateway(reply) as server:
        with server.ask(b'{"prompt": "x"}') as sock:
            wait_for(lambda: b"word" in sock.recv(65536))
        assert reply.was_left.wait(PATIENCE_S)
        wait_for(lambda: not server.application.running.calls)


def test_a_client_that_reads_nothing_stops_the_upstream_and_is_cut_off() -> None:
    reply = Endless()
    with (
        gateway(reply, write_timeout_s=0.5) as server,
        server.ask(b'{"prompt": "x"}', receive_bytes=4096),
    ):
        assert reply.was_left.wait(PATIENCE_S)
        wait_for(lambda: not server.application.running.calls)


def test_a_slow_client_gets_everything() -> None:
    text = "#" * 500
    reply = says(HELLO[0], *[delta(text)] * 2000, delta(finish="stop"), DONE)
    with gateway(reply) as server, server.ask(b'{"prompt": "x"}', receive_bytes=4096) as sock:
        answer = http.client.HTTPResponse(sock)
        answer.begin()
        got = answer.read()

    assert (got.count(b"#"), b'"completion_tokens":2000' in got) == (2000 * 500, True)


def test_an_update_counts_from_where_the_text_is(direct_tokens: list[int]) -> None:
    with gateway(Endless(0.001)) as server, server.ask(b'{"prompt": "x"}') as sock:
        wait_for(lambda: b"word20 " in sock.recv(65536))
        (call,) = server.application.running.calls.values()
        server.loop.call_soon_threadsafe(lambda: call.update(max_tokens=1))
        got = wait_for(lambda: _until_end(sock))

    assert b'"reason":"length"' in got


def _until_end(sock: socket.socket) -> bytes:
    got = b""
    while b'"type":"end"' not in got:
        got += sock.recv(65536)
    return got


def test_an_observer_sees_what_comes_from_now_on(direct_tokens: list[int]) -> None:
    with gateway(Endless(0.001)) as server, server.ask(b'{"prompt": "x"}') as sock:
        wait_for(lambda: b"word20 " in sock.recv(65536))
        (id,) = server.application.running.calls
        with urllib.request.urlopen(f"{server.url}/v1/streams/{id}?observe=1") as observed:
            assert wait_for(lambda: b"word" in observed.readline())


async def _words_and_silence(exchange: Exchange) -> None:
    await exchange.begin()
    await exchange.chunk(HELLO[0])
    for _ in range(8):
        await asyncio.sleep(0.1)
        await exchange.chunk(delta("word "))
    await exchange.until_left()


def test_text_extends_the_time_limit_of_the_upstream(direct_tokens: list[int]) -> None:
    with gateway(_words_and_silence, idle_timeout_s=0.4) as server:
        frames = frames_of(server)

    assert "".join(frame.get("text", "") for frame in frames) == "word " * 8
    assert frames[-2]["code"] == "engine.upstream-slow"


async def _comments(exchange: Exchange) -> None:
    await exchange.begin()
    await exchange.chunk(HELLO[0])
    with suppress(ConnectionError):
        while not exchange.reader.at_eof():
            await asyncio.sleep(0.05)
            await exchange.chunk(b": still here\n\n")


def test_the_first_token_has_a_time_limit_that_comments_do_not_extend() -> None:
    with gateway(_comments, first_token_timeout_s=0.5, first_byte_wait_s=0.1) as server:
        frames = [frame for frame in frames_of(server) if frame["type"] != "heartbeat"]

    assert [frame["type"] for frame in frames] == ["start", "error", "end"]
    assert frames[1]["code"] == "engine.upstream-slow"


def test_heartbeats_follow_the_last_text(direct_tokens: list[int]) -> None:
    with (
        gateway(_words_and_silence, heartbeat_s=0.3) as server,
        server.ask(b'{"prompt": "x"}') as sock,
    ):
        got = b""
        while got.count(b": hb\n") < 3:
            got += sock.recv(65536)

    assert got.count(b"word ") >= 8
