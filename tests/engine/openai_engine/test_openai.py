"""The `openai` engine against a real server: what it asks for, and what it makes of answers."""

from __future__ import annotations

import gzip
import io
import json
import sys

import pytest
from observed_engines import wait_until

import torvyn
from fake_upstream import DONE, HELLO, delta, event, running, says, status
from torvyn.engine.nodes.source_openai import OpenAISource
from torvyn.engine.openai.engine import OpenAI
from torvyn.protocol.frames import ToolCall, Usage

TOOL = {"type": "function", "function": {"name": "look", "parameters": {}}}


def engine_at(upstream, **options):
    return OpenAI(base_url=upstream.url, model="m", **options)


def answer(*chunks, **options):
    """The completion that these chunks make."""
    with running(says(*chunks)) as upstream, engine_at(upstream) as engine:
        return engine.complete("x", **options)


def body(api="chat", asked="Hello", **options):
    ended = event({"choices": [{"index": 0, "text": "", "finish_reason": "stop"}]})
    reply = says(*HELLO) if api == "chat" else says(ended, DONE)
    with running(reply) as upstream, engine_at(upstream, api=api) as engine:
        engine.complete(asked, **options)
    return upstream.exchanges[0].body


def test_an_answer_is_streamed_and_complete():
    whole = answer(*HELLO)

    assert (whole.text, whole.finish_reason) == ("Hello", "stop")


def test_a_plain_request_asks_for_a_stream_with_usage():
    assert body() == {
        "model": "m",
        "stream": True,
        "stream_options": {"include_usage": True},
        "messages": [{"role": "user", "content": "Hello"}],
    }


def test_every_option_of_a_request_reaches_the_upstream():
    options = {
        "max_tokens": 5,
        "temperature": 0.5,
        "top_p": 0.9,
        "seed": 3,
        "tool_choice": "auto",
        "response_format": {"type": "json_object"},
        "user": "me",
        "n": 2,
        "top_logprobs": 2,
        "logprobs": True,
        "tools": [TOOL],
        "stop": ["a", "b"],
    }
    with running(says(*HELLO, delta("x", 1, "stop"))) as upstream, engine_at(upstream) as engine:
        next(iter(engine.generate([{"role": "user", "content": "x"}], **options)))

    assert upstream.exchanges[0].body.items() >= options.items()


def test_completions_take_the_prompt_and_the_number_of_alternatives():
    asked = body(api="completions", logprobs=True, top_logprobs=2)

    assert (asked["prompt"], asked["logprobs"]) == ("Hello", 2)


@pytest.mark.parametrize("options", [{"include_stop": True, "stop": "a"}, {"stop": list("abcde")}])
def test_stop_strings_stay_here_when_the_upstream_cannot_do_them(options):
    assert "stop" not in body(**options)


def test_completions_are_read():
    chunks = [
        event({"choices": [{"index": 0, "text": text, "finish_reason": reason}]})
        for text, reason in (("Hel", None), ("lo", "length"))
    ]
    with running(says(*chunks, DONE)) as upstream, engine_at(upstream, api="completions") as engine:
        whole = engine.complete("x")

    assert (whole.text, whole.finish_reason) == ("Hello", "length")
    assert upstream.exchanges[0].head.startswith("POST /v1/completions ")


def test_usage_is_the_upstreams_or_else_counted():
    told = event({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 9}})

    assert answer(*HELLO[:-1], told, DONE).usage == Usage(7, 9)
    assert answer(*HELLO).usage == Usage(0, 2)


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_reasoning_is_no_text(field):
    (choice,) = answer(delta({field: "Hm."}), *HELLO).choices

    assert (choice.reasoning, choice.text) == ("Hm.", "Hello")


def test_calls_of_tools_come_in_pieces():
    def piece(**call):
        return delta({"tool_calls": [{"index": 0, **call}]})

    (choice,) = answer(
        piece(id="c1", function={"name": "look", "arguments": '{"a":'}),
        piece(function={"arguments": "1}"}),
        delta(finish="tool_calls"),
        DONE,
    ).choices

    assert choice.tool_calls == (ToolCall(0, "c1", "look", '{"a":1}'),)
    assert choice.finish_reason == "tool_calls"


def test_log_probabilities_are_passed_on():
    entry = {"token": "x", "logprob": -0.5, "bytes": [120], "top_logprobs": []}

    whole = answer(delta("x", finish="stop", logprobs={"content": [entry]}), DONE, logprobs=True)

    assert whole.choices[0].logprobs == (entry,)


def test_choices_are_kept_apart():
    parts = [delta("a", 0), delta("x", 1), delta("b", 0, "stop"), delta("y", 1, "length"), DONE]

    first, second = answer(*parts, n=2).choices

    assert (first.text, first.finish_reason) == ("ab", "stop")
    assert (second.text, second.finish_reason) == ("xy", "length")


def test_text_cut_anywhere_arrives_whole():
    chunks = b"".join([delta("Grüße 👩‍👧 "), delta("漢字"), delta(finish="stop"), DONE])
    raw = json.dumps("é").encode() and chunks.replace(b"\\u00fc", "ü".encode())

    whole = answer(*(raw[at : at + 1] for at in range(len(raw))))

    assert whole.text == "Grüße 👩‍👧 漢字"


def test_halves_of_a_character_in_two_deltas_are_joined():
    halves = [
        b'data: {"choices":[{"index":0,"delta":{"content":"\\ud83d"}}]}\n\n',
        b'data: {"choices":[{"index":0,"delta":{"content":"\\ude00"}}]}\n\n',
    ]

    assert answer(*halves, delta(finish="stop"), DONE).text == "😀"


@pytest.mark.parametrize(
    "form",
    [
        lambda raw: raw.replace(b"\n", b"\r\n"),
        lambda raw: b"\xef\xbb\xbf" + raw,
        lambda raw: b": comment\n\n" + raw.replace(b"\n\n", b"\n\n: ping\n"),
        lambda raw: raw.replace(b"data: ", b"data:"),
        lambda raw: raw.replace(b"data: ", b"id: 7\nevent: message\nretry: 5\ndata: "),
    ],
    ids=["crlf", "bom", "comments", "no space", "other fields"],
)
def test_every_legal_form_of_a_stream_is_read(form):
    assert answer(form(b"".join(HELLO))).text == "Hello"


def test_a_missing_done_is_forgiven_when_every_choice_has_finished():
    assert answer(*HELLO[:-1]).text == "Hello"


def test_a_stream_that_is_packed_is_unpacked():
    async def packed(exchange):
        data = gzip.compress(b"".join(HELLO))
        head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: gzip\r\n"
        await exchange.send(f"{head}Content-Length: {len(data)}\r\n\r\n".encode(), data)

    with running(packed) as upstream, engine_at(upstream) as engine:
        assert engine.complete("x").text == "Hello"


def test_an_upstream_that_does_not_stream_is_understood():
    choice = {"index": 0, "message": {"content": "Hello"}, "finish_reason": "length"}
    whole = json.dumps({"choices": [choice], "usage": {"prompt_tokens": 2, "completion_tokens": 1}})
    reply = status(200, whole, "Content-Type: application/json")

    with running(reply) as upstream, engine_at(upstream) as engine:
        made = engine.complete("x")

    assert (made.text, made.finish_reason, made.usage) == ("Hello", "length", Usage(2, 1))


def test_an_upstream_is_the_source_of_a_flow():
    with running(says(*HELLO)) as upstream:
        source = OpenAISource()
        source.config = {"base_url": upstream.url, "model": "m", "prompt": "Hi", "stop": "o"}
        flow = torvyn.Flow(source)

        assert "".join(flow.text()) == "Hell"
        assert (flow.end.finish_reason, flow.end.matched_stop) == ("stop", "o")
        wait_until(lambda: upstream.open == 0)


def test_without_a_prompt_the_source_reads_standard_input(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("What is\nthis?\n"))
    with running(says(*HELLO)) as upstream:
        source = OpenAISource()
        source.config = {"base_url": upstream.url, "model": "m"}

        assert "".join(torvyn.Flow(source).text()) == "Hello"
    assert upstream.exchanges[0].body["messages"][0]["content"] == "What is\nthis?"
