"""Fields that are not ours, from a client through the server to an upstream; and what is kept back.

The client is OpenAI's own, the upstream a server on loopback.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import openai
import pytest
from local_model import needs_model

from fake_upstream import HELLO, delta, event, running, says, status
from torvyn.engine import Scripted, Service
from torvyn.engine.extra_fields import MOST_BYTES, MOST_FIELDS, RESERVED, forwardable
from torvyn.engine.nodes.source_openai import OpenAISource
from torvyn.engine.openai.engine import OpenAI
from torvyn.errors import InvalidInput
from torvyn.serve import app

MESSAGES: Any = [{"role": "user", "content": "Hi"}]
COMPLETED = (event({"choices": [{"index": 0, "text": "Hello", "finish_reason": "stop"}]}),)


def called(engine, make):
    """What `make(client)` gives, with OpenAI's client before an application with that engine."""

    async def main():
        transport = httpx.ASGITransport(app({"chat": Service("chat", engine)}))
        web = httpx.AsyncClient(transport=transport)
        async with openai.AsyncOpenAI(
            base_url="http://127.0.0.1/v1", api_key="-", max_retries=0, http_client=web
        ) as client:
            return await make(client)

    return asyncio.run(main())


def forwarded(make, reply=None, **options):
    """The body that the upstream got, and what `make(client)` gave."""
    with running(reply or says(*HELLO)) as upstream:
        with OpenAI(base_url=upstream.url, model="m", **options) as engine:
            made = called(engine, make)
        return upstream.exchanges[0].body, made


def chat(**more):
    async def make(client):
        answer = await client.chat.completions.with_raw_response.create(
            model="chat", messages=MESSAGES, **more
        )
        return answer.headers.get("x-torvyn-ignored"), answer.parse().choices[0].message.content

    return make


def test_sampling_fields_reach_the_upstream():
    extra = {"top_k": 5, "min_p": 0.1, "repetition_penalty": 1.1, "logit_bias": {"50256": -100}}
    body, (ignored, text) = forwarded(
        chat(extra_body=extra, reasoning_effort="low", frequency_penalty=0.5, temperature=0.5)
    )

    assert body.items() >= {**extra, "reasoning_effort": "low", "frequency_penalty": 0.5}.items()
    assert (body["temperature"], ignored, text) == (0.5, None, "Hello")


def test_no_field_takes_the_place_of_ours():
    mine = {"stream_options": {"include_usage": False}, "echo": True, "best_of": 5}
    body, (ignored, _) = forwarded(chat(extra_body={**mine, "prompt": "x", "chat_template": "{{"}))

    assert body == {
        "model": "m",
        "stream": True,
        "stream_options": {"include_usage": True},
        "messages": MESSAGES,
    }
    assert ignored == "best_of, chat_template, echo, prompt"


def test_what_the_engine_was_opened_with_wins():
    body, _ = forwarded(
        chat(extra_body={"top_k": 5, "min_p": 0.2}), extra_body={"top_k": 1, "model": "other"}
    )

    assert (body["top_k"], body["min_p"], body["model"]) == (1, 0.2, "other")


def test_forwarding_can_be_turned_off():
    body, (ignored, text) = forwarded(chat(extra_body={"top_k": 5}), forward_unknown=False)

    assert ("top_k" in body, ignored, text) == (False, "top_k", "Hello")


def test_completions_forward_as_well():
    async def make(client):
        return await client.completions.create(
            model="chat", prompt="One,", extra_body={"top_k": 5}, suffix="!"
        )

    body, _ = forwarded(make, says(*COMPLETED), api="completions")

    assert (body["prompt"], body["top_k"], body["suffix"]) == ("One,", 5, "!")


def test_a_stream_of_openais_client_forwards_as_well():
    async def make(client):
        chunks = await client.chat.completions.create(
            model="chat", messages=MESSAGES, stream=True, extra_body={"top_k": 5}
        )
        return [chunk.choices[0].delta.content async for chunk in chunks if chunk.choices]

    body, pieces = forwarded(make)

    assert body["top_k"] == 5
    assert "".join(piece or "" for piece in pieces) == "Hello"


def post(engine, body, path="/v1/streams"):
    async def main():
        transport = httpx.ASGITransport(app({"chat": Service("chat", engine)}))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as web:
            return await web.post(path, json=body)

    return asyncio.run(main())


def test_our_own_form_forwards_to_an_upstream_and_refuses_elsewhere():
    asked = {"prompt": "Hi", "top_k": 5}
    with (
        running(says(*HELLO)) as upstream,
        OpenAI(base_url=upstream.url, model="m") as engine,
    ):
        assert post(engine, asked).status_code == 200
        refused = post(engine, {**asked, "best_of": 3})
    elsewhere = post(Scripted("a"), asked)

    assert upstream.exchanges[0].body["top_k"] == 5
    assert "unknown field `best_of`" in refused.json()["error"]["message"]
    assert (elsewhere.status_code, len(upstream.exchanges)) == (400, 1)
    assert "unknown field `top_k`" in elsewhere.json()["error"]["message"]


def nested(levels):
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        ({"a": "x" * MOST_BYTES}, "bytes; at most"),
        ({f"field_{place}": 1 for place in range(MOST_FIELDS + 1)}, "at most 32 are forwarded"),
        ({"a": nested(20)}, "levels"),
    ],
    ids=["large", "many", "deep"],
)
def test_what_is_large_many_or_deep_is_refused_before_the_upstream_is_asked(extra, words):
    with running(says(*HELLO)) as upstream, OpenAI(base_url=upstream.url, model="m") as engine:
        answer = post(engine, {"messages": MESSAGES, **extra}, "/v1/chat/completions")

    assert (answer.status_code, upstream.exchanges) == (400, [])
    assert words in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    "extra",
    [{"model": "x"}, {"a b": 1}, {"": 1}, {1: 1}, [1], {"a": object()}, {"a": float("nan")}],
)
def test_a_program_cannot_forward_what_is_no_field(extra):
    with (
        OpenAI(base_url="http://127.0.0.1:9/v1", model="m") as engine,
        pytest.raises(InvalidInput) as caught,
    ):
        engine.generate("x", extra=extra)
    assert caught.value.code == "engine.request-invalid"


def test_a_program_forwards_by_name():
    with running(says(*HELLO)) as upstream, OpenAI(base_url=upstream.url, model="m") as engine:
        engine.complete("x", extra={"top_k": 5})

    assert upstream.exchanges[0].body["top_k"] == 5


def test_names_are_reserved_whatever_their_case():
    given = {name.upper(): 1 for name in RESERVED}

    assert forwardable({**given, "top_k": 1, "x\r\ny": 2}) == {"top_k": 1}


def test_a_manifest_says_what_is_sent_and_forwarded():
    with running(says(*HELLO)) as upstream:
        source = OpenAISource()
        config = {"base_url": upstream.url, "model": "m", "max_line": "2KiB"}
        given = source.options(json.dumps({**config, "extra_body": {"top_k": 3}}))
        with source.open_engine(given) as engine:
            engine.complete("x")
        off = source.options(json.dumps({**config, "forward_unknown": False}))
        with source.open_engine(off) as engine:
            assert engine.takes_extra is False

    assert upstream.exchanges[0].body["top_k"] == 3


# What a client of the gateway learns of an upstream's failure.

FAULTS = {
    "refused": status(400, '{"error": {"message": "top_k is wrong, see http://10.0.0.7/docs"}}'),
    "away": status(503, "Traceback: aiohttp.ClientConnectorError 10.0.0.7:8000"),
    "middle": says(*HELLO[:3], event({"error": {"message": "lost 10.0.0.7:8000"}})),
    "cut": says(*HELLO[:3]),
    "garbage": says(*HELLO[:3], b"data: {10.0.0.7}\n\n"),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("path", ["/v1/streams", "/v1/chat/completions"])
@pytest.mark.parametrize("stream", [True, False])
def test_clients_see_no_address_and_no_library(fault, path, stream):
    asked = {"messages": MESSAGES, "stream": stream or path == "/v1/streams"}
    with running(FAULTS[fault]) as upstream:
        place = upstream.url.split("/")[2]
        with OpenAI(base_url=upstream.url, model="m", retries=0) as engine:
            answer = post(engine, asked, path)

    shown = [
        secret for secret in (place, "10.0.0.7", "aiohttp", "Traceback") if secret in answer.text
    ]
    assert shown == []
    assert "engine.upstream" in answer.text


def test_fewer_choices_than_asked_for_are_an_error_frame_for_clients():
    with (
        running(says(delta("a", 0, "stop"))) as upstream,
        OpenAI(base_url=upstream.url, model="m") as engine,
    ):
        answer = post(engine, {"messages": MESSAGES, "n": 2})

    frames = [
        json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: ")
    ]
    assert [frame["type"] for frame in frames] == ["start", "delta", "error", "end"]
    assert [one["reason"] for one in frames[-1]["finish"]] == ["stop", "error"]


# Completions, on a real model.


@needs_model
def test_completions_continue_the_prompt_as_it_is():
    from torvyn.engine.local.engine import Local

    async def make(client):
        asked = {"model": "chat", "max_tokens": 2, "temperature": 0}
        raw = await client.completions.create(prompt="One, two, three,", **asked)
        answered = await client.chat.completions.create(
            messages=[{"role": "user", "content": "One, two, three,"}], **asked
        )
        return raw, answered

    with Local(context=128, parallel=1) as engine:
        raw, answered = called(engine, make)

    assert raw.choices[0].text.startswith(" four")
    assert raw.usage.prompt_tokens < 10 < answered.usage.prompt_tokens


@needs_model
@pytest.mark.parametrize("stream", [True, False])
def test_an_image_is_a_bad_request(stream):
    from torvyn.engine.local.engine import Local

    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    asked = {"messages": [{"role": "user", "content": [image]}], "stream": stream}
    with Local(context=128, parallel=1) as engine:
        answer = post(engine, asked, "/v1/chat/completions")

    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "engine.request-invalid")
