"""Real clients: openai from PyPI, httpx-sse and curl."""

from __future__ import annotations

import asyncio
import functools
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import httpx_sse
import missing
import openai
import pytest
from live_server import Served, served, wait_for

from torvyn.engine import Scripted, Service
from torvyn.engine import open as open_engine
from torvyn.errors import Unavailable
from torvyn.protocol import ToolCall
from torvyn.transport.access.key_file import edit

TEXT = 'Grüße, "Welt"! 🎉 a\nb'
MESSAGES: Any = [{"role": "user", "content": "Hi"}]
CALL = ToolCall(0, "call_1", "now", '{"zone": "UTC"}')
PIECES = (
    ToolCall(0, "call_1", "now", '{"zo'),
    ToolCall(1, "call_2", "then", "{"),
    ToolCall(0, arguments='ne": "UTC"}'),
    ToolCall(1, arguments="}"),
)
TOOLS: Any = [{"type": "function", "function": {"name": "now", "parameters": {}}}]


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    services = {
        "chat": Service("chat", Scripted(TEXT, token_bytes=1)),
        "two": Service("two", Scripted(answers=["one", "other"])),
        "tool": Service("tool", Scripted(["so", CALL], finish_reason="tool_calls")),
        "broken": Service("broken", Scripted("a b", fail_at=1)),
        "away": Service("away", Scripted("a", fail_at=0, error=Unavailable("gone"))),
        "pieces": Service("pieces", Scripted([*PIECES], finish_reason="tool_calls")),
        "filtered": Service("filtered", Scripted("so far", finish_reason="content_filter")),
        "quiet": Service("quiet", Scripted("a b", first_delay=0.2, delay=0.1)),
    }
    with served(services, heartbeat_s=0.02) as running:
        yield running


@pytest.fixture(scope="module")
def client(server: Served) -> Iterator[Any]:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="-", max_retries=0) as made:
        yield made


@pytest.mark.promise("inference.openai-client", "inference.stream-flag")
def test_a_chat_streams(client: Any) -> None:
    chunks = list(client.chat.completions.create(model="chat", messages=MESSAGES, stream=True))

    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == TEXT
    assert chunks[0].choices[0].delta.role == "assistant"
    assert [chunk.choices[0].finish_reason for chunk in chunks][-1] == "stop"
    assert all(chunk.usage is None for chunk in chunks)


@pytest.mark.promise("inference.stream-flag")
def test_a_chat_is_whole(client: Any) -> None:
    answer = client.chat.completions.create(model="chat", messages=MESSAGES)

    assert answer.choices[0].message.content == TEXT
    assert answer.usage.completion_tokens == len(TEXT.encode())


@pytest.mark.promise("inference.openai-client")
def test_usage_is_sent_only_on_request(client: Any) -> None:
    options = {"include_usage": True}
    chunks = list(
        client.chat.completions.create(
            model="two", messages=MESSAGES, stream=True, stream_options=options
        )
    )

    assert chunks[-1].choices == []
    assert chunks[-1].usage.completion_tokens == 1


@pytest.mark.promise("inference.openai-client")
def test_several_choices(client: Any) -> None:
    answer = client.chat.completions.create(model="two", messages=MESSAGES, n=2)
    said = {0: "", 1: ""}
    for chunk in client.chat.completions.create(model="two", messages=MESSAGES, n=2, stream=True):
        for choice in chunk.choices:
            said[choice.index] += choice.delta.content or ""

    assert [choice.message.content for choice in answer.choices] == ["one", "other"]
    assert said == {0: "one", 1: "other"}


def test_log_probabilities(client: Any) -> None:
    asked = {"model": "two", "messages": MESSAGES, "logprobs": True, "top_logprobs": 2}
    answer = client.chat.completions.create(**asked)
    (entry,) = answer.choices[0].logprobs.content

    assert (entry.token, len(entry.top_logprobs)) == ("one", 2)


def test_tools(client: Any) -> None:
    answer = client.chat.completions.create(model="tool", messages=MESSAGES, tools=TOOLS)
    (call,) = answer.choices[0].message.tool_calls

    assert (call.function.name, json.loads(call.function.arguments)) == ("now", {"zone": "UTC"})
    assert answer.choices[0].finish_reason == "tool_calls"


@pytest.mark.promise("inference.nested-json")
def test_calls_of_two_tools_are_joined_from_their_pieces(client: Any) -> None:
    asked = {"model": "pieces", "messages": MESSAGES, "tools": TOOLS}
    with client.chat.completions.stream(**asked) as stream:
        choice = stream.get_final_completion().choices[0]

    made = [
        (call.id, call.function.name, call.function.arguments) for call in choice.message.tool_calls
    ]
    assert made == [("call_1", "now", '{"zone": "UTC"}'), ("call_2", "then", "{}")]
    assert choice.finish_reason == "tool_calls"


@pytest.mark.promise("inference.openai-client")
def test_choices_log_probabilities_and_usage_in_one_stream(client: Any) -> None:
    asked = {"model": "two", "messages": MESSAGES, "n": 2, "logprobs": True}
    chunks = list(
        client.chat.completions.create(**asked, stream=True, stream_options={"include_usage": True})
    )
    choices = [choice for chunk in chunks for choice in chunk.choices]

    entries = [entry for one in choices if one.logprobs for entry in one.logprobs.content]
    assert sorted(entry.token for entry in entries) == ["one", "other"]
    assert sorted(one.index for one in choices if one.finish_reason) == [0, 1]
    assert chunks[-1].usage.completion_tokens == 2


def test_an_answer_that_a_guard_ended_shows_that(client: Any) -> None:
    chunks = client.chat.completions.create(model="filtered", messages=MESSAGES, stream=True)

    assert [chunk.choices[0].finish_reason for chunk in chunks][-1] == "content_filter"


@pytest.mark.promise("inference.stream-flag")
def test_completions(client: Any) -> None:
    answer = client.completions.create(model="chat", prompt="Hi", max_tokens=3, logprobs=1)
    chunks = client.completions.create(model="chat", prompt="Hi", stream=True)

    assert answer.choices[0].finish_reason == "length"
    assert "".join(chunk.choices[0].text for chunk in chunks) == TEXT


def test_models(client: Any) -> None:
    assert "tool" in [model.id for model in client.models.list()]
    assert client.models.retrieve("tool").id == "tool"


@pytest.mark.promise("inference.error-frames", "inference.openai-client")
def test_an_error_in_the_middle_is_raised(client: Any) -> None:
    with pytest.raises(openai.APIError, match="the script fails here"):
        list(client.chat.completions.create(model="broken", messages=MESSAGES, stream=True))


def test_errors_before_the_answer_have_a_status(client: Any) -> None:
    with pytest.raises(openai.NotFoundError):
        client.chat.completions.create(model="other", messages=MESSAGES)
    with pytest.raises(openai.BadRequestError):
        client.chat.completions.create(model="chat", messages=MESSAGES, temperature=7)
    with pytest.raises(openai.InternalServerError):
        client.chat.completions.create(model="away", messages=MESSAGES)


@pytest.mark.promise("inference.heartbeats")
def test_heartbeats_do_not_disturb_a_client(client: Any) -> None:
    chunks = client.chat.completions.create(model="quiet", messages=MESSAGES, stream=True)

    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "a b"


def test_the_asynchronous_client_streams(server: Served) -> None:
    async def read() -> str:
        url = f"{server.url}/v1"
        async with openai.AsyncOpenAI(base_url=url, api_key="-") as client:
            stream = await client.chat.completions.create(
                model="chat", messages=MESSAGES, stream=True
            )
            return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])

    assert asyncio.run(read()) == TEXT


@pytest.mark.promise("inference.transports")
def test_httpx_sse_reads_our_own_frames(server: Served) -> None:
    asked = {"flow": "quiet", "prompt": "Hi"}
    with (
        httpx.Client() as http,
        httpx_sse.connect_sse(http, "POST", f"{server.url}/v1/streams", json=asked) as source,
    ):
        events = list(source.iter_sse())

    frames = [json.loads(event.data) for event in events]
    assert [frame["type"] for frame in frames] == ["start", "delta", "delta", "end"]
    assert [event.id.partition("-")[2] for event in events] == ["0", "1", "2", "3"]


def test_a_gateway_hands_answers_on_and_ends_the_upstream_with_its_client(server: Served) -> None:
    upstream = Scripted("a b c d e f", delay=0.05)
    with served(upstream) as behind:
        engine = open_engine("openai", base_url=f"{behind.url}/v1", model="chat")
        with served(engine) as gateway:
            url = f"{gateway.url}/v1"
            with openai.OpenAI(base_url=url, api_key="-", max_retries=0) as client:
                whole = client.chat.completions.create(model="chat", messages=MESSAGES)
                stream = client.chat.completions.create(
                    model="chat", messages=MESSAGES, stream=True
                )
                next(chunk for chunk in stream if chunk.choices[0].delta.content)
                stream.close()
            wait_for(lambda: upstream.aborted)

    assert whole.choices[0].message.content == "a b c d e f"
    assert len(upstream.aborted) == 1


def test_openais_client_shows_its_key(tmp_path: Path) -> None:
    with edit(tmp_path / "keys.json") as file:
        key = file.add("web", requests_per_minute=1)
    with served(Scripted("a b"), keys=str(tmp_path / "keys.json")) as keyed:
        made = openai.OpenAI(base_url=f"{keyed.url}/v1", api_key=key, max_retries=0)
        ask = functools.partial(made.completions.create, model="chat", prompt="Hi")
        assert ask().choices[0].text == "a b"
        with pytest.raises(openai.RateLimitError) as caught:
            ask()
        assert int(caught.value.response.headers["retry-after"]) in (59, 60)
        made.api_key = "tvk_wrong"
        with pytest.raises(openai.AuthenticationError):
            ask()


@pytest.mark.promise("inference.grpc")
@missing.needs_program("curl")
@pytest.mark.parametrize("version", ["--http1.1", "--http2-prior-knowledge"])
def test_curl_over_both_versions_of_http(server: Served, version: str) -> None:
    asked = '{"flow": "two", "prompt": "Hi"}'
    command = ["curl", "-sN", version, f"{server.url}/v1/streams", "-d", asked]
    command += ["-H", "Accept: application/x-ndjson"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)

    frames = [json.loads(line) for line in done.stdout.splitlines()]
    assert [frame["type"] for frame in frames] == ["start", "delta", "end"]
