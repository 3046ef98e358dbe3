"""Streams on the wire: what is sent, and when."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from asgi_client import PROMPT_BODY, Client, Gated, serving, texts

from torvyn.engine import Request, Scripted, Service, Step
from torvyn.errors import Unavailable
from torvyn.protocol import DeltaFrame, EndFrame, ErrorFrame, StartFrame, ToolCall
from torvyn.serve import ServerSettings, app

CHAT = {"messages": [{"role": "user", "content": "Hi"}], "stream": True}


@pytest.mark.promise("inference.buffering-proxies")
async def test_the_head_leaves_before_a_slow_engine_has_made_anything() -> None:
    engine = Gated()
    client = Client(serving(engine), body=PROMPT_BODY)
    await client.until(1)

    assert client.status == 200
    assert client.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert client.headers["cache-control"] == "no-cache, no-transform"
    assert client.headers["x-accel-buffering"] == "no"
    assert b'"type":"start"' in client.chunks[0]
    client.leave()
    await client


class Asked(Scripted):
    """Knows whether its client had heard of the answer when it was asked."""

    client: Client | None = None
    status_when_asked = -1

    def steps(self, request: Request) -> AsyncIterator[Step]:
        assert self.client is not None
        self.status_when_asked = self.client.status
        return super().steps(request)


async def test_the_engine_is_asked_before_the_client_hears_of_it() -> None:
    engine = Asked("one two")
    engine.client = client = Client(serving(engine), body=PROMPT_BODY)
    await client

    assert (engine.status_when_asked, client.status) == (0, 200)
    assert [type(frame) for frame in client.frames()[:2]] == [StartFrame, DeltaFrame]


async def test_completions_have_no_start_of_their_own_and_begin_late_with_a_heartbeat() -> None:
    engine = Gated()
    asked = {"prompt": "Hi", "stream": True}
    client = Client(serving(engine), "/v1/completions", asked)
    await client.until(1)

    assert client.chunks == [b": hb\n"]
    client.leave()
    await client


@pytest.mark.promise("inference.prompt-end")
async def test_the_end_leaves_with_the_last_token() -> None:
    pauses: asyncio.Queue[None] = asyncio.Queue()
    engine = Scripted("a b c", delay="300ms", sleep=lambda _: pauses.get())
    client = Client(serving(engine), body=PROMPT_BODY)
    for _ in "bc":
        pauses.put_nowait(None)
    # A third pause would never end.
    await client

    assert "".join(texts(client)) == "a b c"


@pytest.mark.promise("responses.cut-character")
@pytest.mark.parametrize("path", ["/v1/streams", "/v1/chat/completions"])
@pytest.mark.parametrize("way", ["drop", "replace", None])
async def test_an_answer_cut_in_a_character_has_whole_ones_unless_the_server_replaces(
    path: str, way: str | None
) -> None:
    settings = {} if way is None else {"cut_character": way}
    application = serving(Scripted("aé", token_bytes=1), **settings)
    body = {**(PROMPT_BODY if path == "/v1/streams" else CHAT), "max_tokens": 2}
    client = await Client(application, path, body)

    text = client.body.decode()
    assert "a" in text
    assert ("\ufffd" in text or "\\ufffd" in text) is (way == "replace")


@pytest.mark.promise("responses.cut-character")
@pytest.mark.parametrize("of_node", ["drop", "replace", None])
@pytest.mark.parametrize("of_server", ["drop", "replace"])
async def test_the_node_of_the_engine_decides_before_the_server(
    of_node: str | None, of_server: str
) -> None:
    defaults = {} if of_node is None else {"cut_character": of_node}
    service = Service("chat", Scripted("aé", token_bytes=1), defaults)
    application = app({"chat": service}, ServerSettings(cut_character=of_server))
    client = await Client(application, body={**PROMPT_BODY, "max_tokens": 2})

    replaces = (of_node or of_server) == "replace"
    assert "".join(texts(client)) == ("a\ufffd" if replaces else "a")


@pytest.mark.promise("inference.deltas", "inference.flush", "responses.first-token")
async def test_a_token_leaves_as_soon_as_it_is_made() -> None:
    engine = Gated()
    client = Client(serving(engine), body=PROMPT_BODY)
    for number, token in enumerate("abc"):
        engine.tokens.put_nowait(token)
        # One chunk per token; the start leaves with the first.
        await client.until(1 + number)
    engine.tokens.put_nowait(None)
    await client

    assert texts(client) == ["a", "b", "c"]


@pytest.mark.promise("inference.chunks")
async def test_what_is_ready_together_leaves_together_after_the_first() -> None:
    tokens = 50
    client = await Client(serving(Scripted(["x"] * tokens)), body=PROMPT_BODY)

    first, *rest = texts(client)
    assert first == "x"
    # 49 more: three full chunks and the last one, which goes with the end.
    assert [len(text) for text in rest] == [16, 16, 16, 1]
    # The start leaves with the first text.
    assert len(client.chunks) == 1 + 3 + 1


@pytest.mark.promise("inference.chunks")
async def test_two_thousand_tokens_a_second_are_few_writes() -> None:
    bursts, tokens = 20, 20

    def script(_request: Request, _index: int) -> list[Any]:
        return [item for _ in range(bursts) for item in (0.01, *["x"] * tokens)]

    client = await Client(serving(Scripted(script)), body=PROMPT_BODY)

    assert "".join(texts(client)) == "x" * bursts * tokens
    # Of each burst 16 tokens, then 4; the very first token alone, the head, the end.
    assert len(client.chunks) <= 2 * bursts + 3


async def test_large_deltas_are_not_gathered_beyond_the_bytes_of_a_chunk() -> None:
    client = await Client(serving(Scripted(["y" * 3000] * 5)), body=PROMPT_BODY)

    assert max(len(chunk) for chunk in client.chunks) < 2 * 4096
    assert "".join(texts(client)) == "y" * 15000


@pytest.mark.promise("inference.heartbeats")
async def test_a_stream_with_nothing_to_say_sends_heartbeats() -> None:
    engine = Gated()
    client = Client(serving(engine, heartbeat_s=0.01), body=PROMPT_BODY)
    await client.until(4)
    engine.tokens.put_nowait(None)
    await client

    assert client.chunks[1:4] == [b": hb\n"] * 3
    assert isinstance(client.frames()[-1], EndFrame)


@pytest.mark.promise("inference.transports")
async def test_json_lines_are_sent_if_the_client_accepts_them() -> None:
    headers = {"accept": "application/x-ndjson"}
    client = await Client(serving(Scripted("a b")), body=PROMPT_BODY, headers=headers)

    assert client.headers["content-type"] == "application/x-ndjson"
    kinds = [type(frame) for frame in client.frames(framing="lines")]
    assert kinds == [StartFrame, DeltaFrame, DeltaFrame, EndFrame]


@pytest.mark.promise("inference.error-frames")
async def test_an_error_in_the_middle_is_sent_and_ends_the_stream_once() -> None:
    client = await Client(serving(Scripted("a b c", fail_at=2)), body=PROMPT_BODY)

    *_, error, end = client.frames()
    assert error == ErrorFrame(
        3, "engine.scripted-failure", "the script fails here", retryable=True
    )
    assert [finish.reason for finish in end.finish] == ["error"]
    assert end.usage.completion_tokens == 2


CHAT = {"messages": [{"role": "user", "content": "Hi"}], "stream": True}


@pytest.mark.parametrize(
    ("path", "body"), [("chat/completions", CHAT), ("completions", {**PROMPT_BODY, "stream": True})]
)
@pytest.mark.parametrize("words", [1, 2])
@pytest.mark.parametrize("asks", [True, False])
async def test_the_usage_of_a_failed_answer_is_sent_before_the_error(
    path: str, body: Any, words: int, asks: bool
) -> None:
    application = serving(Scripted("a b c", fail_at=words))
    body = {**body, "stream_options": {"include_usage": asks}}
    client = await Client(application, f"/v1/{path}", body)

    events = [line[6:] for line in client.body.decode().splitlines() if line[:6] == "data: "]
    assert events.pop() == "[DONE]"
    *chunks, error = map(json.loads, events)
    assert error["error"]["code"] == "engine.scripted-failure"
    usages = [chunk["usage"]["completion_tokens"] for chunk in chunks if chunk.get("usage")]
    assert usages == [words] * asks


async def test_no_secret_leaves_in_an_error() -> None:
    secret = "sk-4711"
    engine = Scripted("a", fail_at=0, error=Unavailable(f"no answer for {secret}"))
    client = await Client(serving(engine, secrets=frozenset({secret})), body=PROMPT_BODY)

    assert secret.encode() not in client.body
    assert b"[redacted]" in client.body


@pytest.mark.promise("inference.empty-streams")
async def test_an_empty_answer_is_a_start_and_an_end() -> None:
    client = await Client(serving(Scripted("")), body=PROMPT_BODY)

    start, end = client.frames()
    assert isinstance(start, StartFrame)
    assert [finish.reason for finish in end.finish] == ["stop"]
    assert end.usage.completion_tokens == 0


@pytest.mark.promise("inference.final-frame")
async def test_every_choice_finishes_once() -> None:
    client = await Client(serving(Scripted("a b")), body={**PROMPT_BODY, "n": 3})

    end = client.frames()[-1]
    assert [(finish.index, finish.reason) for finish in end.finish] == [
        (0, "stop"),
        (1, "stop"),
        (2, "stop"),
    ]


async def test_tool_calls_and_reasoning_keep_their_kind_and_order() -> None:
    call = ToolCall(0, "call_1", "now", "{}")
    script = [("reasoning", "hm"), ("reasoning", "."), "so", call, "end"]
    client = await Client(serving(Scripted(script)), body=PROMPT_BODY)

    said = [(f.kind, f.text or f.call) for f in client.frames() if isinstance(f, DeltaFrame)]
    assert said == [
        ("reasoning", "hm"),
        ("reasoning", "."),
        ("text", "so"),
        ("tool_call", call),
        ("text", "end"),
    ]


@pytest.mark.promise("inference.final-frame", "inference.latency-figures")
async def test_usage_and_times_come_with_the_end() -> None:
    client = await Client(serving(Scripted("a b c")), body=PROMPT_BODY)

    end = client.frames()[-1]
    assert end.usage.completion_tokens == 3
    assert end.usage.prompt_tokens == 1
    assert {"ttft_s", "duration_s", "queue_s", "tokens_per_s"} <= set(end.timing)


@pytest.mark.promise("inference.frames")
async def test_logprobs_travel_with_their_tokens() -> None:
    asked = {**PROMPT_BODY, "logprobs": True, "top_logprobs": 2}
    client = await Client(serving(Scripted("a b")), body=asked)

    deltas = [frame for frame in client.frames() if isinstance(frame, DeltaFrame)]
    assert [entry["token"] for delta in deltas for entry in delta.logprobs] == ["a", " b"]
