"""How an answer of an upstream ends: as the upstream says, and never better than that."""

from __future__ import annotations

import json
import logging

import pytest

import torvyn
from fake_upstream import DONE, HELLO, delta, event, running, says, status
from torvyn.components import Sentence
from torvyn.engine.openai.engine import OpenAI
from torvyn.errors import TorvynError
from torvyn.protocol.openai.finish_reasons import translate

BEGUN = HELLO[:3]


def finishes(reply, n=1, **options):
    """The texts, the finishes with the upstream's own words, and the error, of one request."""
    texts, ends, error = [""] * n, {}, None
    with running(reply) as upstream, OpenAI(base_url=upstream.url, model="m", retries=0) as engine:
        try:
            for one in engine.generate("x", n=n, **options):
                texts[one.index] += one.text
                if one.finish_reason is not None:
                    assert one.index not in ends
                    ends[one.index] = (one.finish_reason, one.native_reason)
        except TorvynError as raised:
            error = raised
    return texts, [ends[index] for index in range(n)], error


def talks(*parts):
    """Sends chunks until its client has left."""

    async def reply(exchange):
        await exchange.begin()
        await exchange.chunk(HELLO[0], *parts)
        await exchange.until_left()

    return reply


WORDS = [f"w{place} " for place in range(6)]
MORE = {
    "plain": [delta(word) for word in WORDS],
    "thinks": [delta({"reasoning_content": "Hm. "})] * 9 + [delta(word) for word in WORDS],
    "together": [b"".join(delta(word) for word in WORDS)],
}


@pytest.mark.parametrize("limit", range(1, 6))
@pytest.mark.parametrize("parts", MORE)
def test_an_upstream_that_ignores_max_tokens_is_cut(parts, limit, caplog):
    caplog.set_level(logging.INFO, "torvyn.engine")
    texts, ends, error = finishes(talks(*MORE[parts]), max_tokens=limit)

    assert (texts[0].replace("Hm. ", ""), error) == ("".join(WORDS[:limit]), None)
    assert ends == [("length", None)]
    assert f"`openai` went on after max_tokens = {limit} and was cut" in caplog.text


@pytest.mark.parametrize("limit", [1, 3])
def test_each_choice_of_such_an_upstream_is_cut(limit):
    parts = [delta(f"{index}{word}", index) for word in WORDS for index in (0, 1)]
    texts, ends, error = finishes(talks(*parts), n=2, max_tokens=limit)

    assert texts == ["".join(f"{index}{word}" for word in WORDS[:limit]) for index in (0, 1)]
    assert (ends, error) == ([("length", None)] * 2, None)


@pytest.mark.parametrize("reason", ["stop", "length", "tool_calls"])
def test_an_upstream_that_keeps_to_max_tokens_says_itself_how_it_ended(reason):
    usage = event({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 7}})
    reply = says(*BEGUN, delta(finish=reason), usage, DONE)
    with running(reply) as upstream, OpenAI(base_url=upstream.url, model="m") as engine:
        whole = engine.complete("x", max_tokens=2)

    assert (whole.text, whole.finish_reason) == ("Hello", reason)
    assert (whole.usage.prompt_tokens, whole.usage.completion_tokens) == (3, 7)


def test_done_without_a_finish_reason_is_no_stop():
    texts, ends, error = finishes(says(*BEGUN, DONE))

    assert (texts, ends) == (["Hello"], [("error", None)])
    assert error.code == "engine.upstream-cut"
    assert error.message == "the upstream ended choice 0 without a finish reason"


def test_done_and_nothing_else_is_no_empty_answer():
    texts, ends, error = finishes(says(DONE))

    assert (texts, ends, error.code) == ([""], [("error", None)], "engine.upstream-cut")


FEWER = {
    "done": says(delta("a", 0, "stop"), DONE),
    "closed": says(delta("a", 0, "stop")),
    "whole": status(
        200,
        json.dumps({"choices": [{"message": {"content": "a"}, "finish_reason": "stop"}]}),
        "Content-Type: application/json",
    ),
}


@pytest.mark.parametrize("way", FEWER)
def test_an_upstream_that_ignores_n_finishes_what_it_made_and_no_more(way):
    texts, ends, error = finishes(FEWER[way], n=3)

    assert texts == ["a", "", ""]
    assert ends == [("stop", None), ("error", None), ("error", None)]
    assert (error.code, error.message) == (
        "engine.upstream-cut",
        "the upstream generated 1 of 3 answers",
    )
    assert "`n`" in error.hint


def test_a_choice_that_fails_does_not_take_the_others_with_it():
    parts = [delta("a", 0, "error"), delta("b", 1), delta("c", 1, "stop"), DONE]

    texts, ends, error = finishes(says(*parts), n=2)

    assert (texts, ends) == (["a", "bc"], [("error", None), ("stop", None)])
    assert error.message == "the upstream ended choice 0 with the finish reason `error`"


def test_an_error_beside_a_last_choice_leaves_its_text():
    # As OpenRouter sends it.
    last = {"index": 0, "delta": {"content": "!"}, "finish_reason": "error"}
    texts, ends, error = finishes(
        says(*BEGUN, event({"error": {"code": 502, "message": "gone"}, "choices": [last]}), DONE)
    )

    assert (texts, ends, error.code) == (["Hello!"], [("error", None)], "engine.upstream-busy")


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("eos", "stop"),
        ("end_turn", "stop"),
        ("STOP", "stop"),
        ("COMPLETE", "stop"),
        ("max_tokens", "length"),
        ("MAX_TOKENS", "length"),
        ("model_length", "length"),
        ("function_call", "tool_calls"),
        ("tool_use", "tool_calls"),
        ("safety", "content_filter"),
        ("SAFETY", "content_filter"),
        ("recitation", "content_filter"),
        ("PROHIBITED_CONTENT", "content_filter"),
        ("abort", "cancelled"),
    ],
)
def test_reasons_of_all_providers_become_ours_and_keep_their_word(theirs, ours):
    _, ends, error = finishes(says(delta("x", finish=theirs), DONE))

    assert (ends, error) == ([(ours, theirs)], None)


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("output_token_limit", "length"),
        ("input-filtered", "content_filter"),
        ("upstream failure", "error"),
        ("tool_wanted", "tool_calls"),
        ("rate_limit_exceeded", "error"),
        ("quarantine", "stop"),
        ("x" * 100_000, "stop"),
    ],
)
def test_a_word_that_nobody_knows_is_a_guess_by_its_parts(theirs, ours):
    assert translate(theirs) == (ours, False)


def test_the_word_passes_through_a_flow():
    with (
        running(says(delta("One. Two.", finish="MAX_TOKENS"), DONE)) as upstream,
        OpenAI(base_url=upstream.url, model="m") as engine,
    ):
        (choice,) = engine.complete("x", through=lambda: torvyn.Flow(Sentence())).choices

    assert (choice.finish_reason, choice.native_reason) == ("length", "MAX_TOKENS")


def test_a_word_that_nobody_knows_is_reported_once(caplog, client):
    word = f"whim-of-{client}"
    replies = says(delta("x", finish=word), DONE)
    with (
        caplog.at_level(logging.WARNING, "torvyn.engine"),
        running(replies) as upstream,
        OpenAI(base_url=upstream.url, model="m") as engine,
    ):
        choices = [engine.complete("x").choices[0] for _ in range(3)]

    assert [choice.finish_reason for choice in choices] == ["stop"] * 3
    assert [choice.native_reason for choice in choices] == [word] * 3
    (record,) = [one for one in caplog.records if one.name == "torvyn.engine"]
    assert (record.native_reason, record.reason) == (word, "stop")
