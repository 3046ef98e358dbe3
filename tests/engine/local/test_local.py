"""The engine `local` on a real model: what it answers, and what it refuses."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from local_model import needs_model
from observed_engines import wait_until

import torvyn
from torvyn.components import Sentence
from torvyn.engine.local.engine import Local, bundled_model
from torvyn.errors import InvalidInput, MissingError, Unavailable

pytestmark = needs_model
CONTEXT = 256
LONG = "Tell me a long story about a fox and a dog."


@pytest.fixture(scope="module")
def engine():
    with Local(context=CONTEXT, parallel=2) as engine:
        yield engine


@pytest.mark.promise("responses.first-token")
def test_an_answer_streams_and_ends_with_finish_and_usage(engine):
    deltas = list(engine.generate("Say hello.", max_tokens=5, temperature=0))

    assert len([delta for delta in deltas if delta.text]) == 5
    assert [delta.finish_reason for delta in deltas[-2:]] == ["length", None]
    assert deltas[-1].usage.completion_tokens == 5
    assert deltas[-1].usage.prompt_tokens > 10


def test_the_same_seed_gives_the_same_answer(engine):
    asked = {"max_tokens": 12, "temperature": 1.0}
    # The first of them fills the cache of the prompt, which changes the arithmetic.
    engine.complete(LONG, seed=7, **asked)
    once, again, other = (engine.complete(LONG, seed=seed, **asked).text for seed in (7, 7, 8))

    assert once == again
    assert other != once


def test_two_choices_are_told_apart_and_counted(engine):
    answer = engine.complete(LONG, n=2, max_tokens=8, temperature=1.0, seed=3)

    assert [choice.finish_reason for choice in answer.choices] == ["length", "length"]
    assert all(choice.text for choice in answer.choices)
    assert answer.usage.completion_tokens == 16


def test_more_choices_than_it_makes_at_a_time_are_refused(engine):
    with pytest.raises(InvalidInput, match="generates 2 at a time") as raised:
        engine.complete("x", n=3)
    assert raised.value.code == "engine.request-invalid"


def test_log_probabilities_belong_to_the_text(engine):
    (choice,) = engine.complete(
        "Say hello.", max_tokens=4, temperature=0, logprobs=True, top_logprobs=2
    ).choices

    assert "".join(entry["token"] for entry in choice.logprobs) == choice.text
    assert all(entry["logprob"] <= 0 for entry in choice.logprobs)
    assert [len(entry["top_logprobs"]) for entry in choice.logprobs] == [2] * 4


def test_a_stop_string_ends_it_and_is_named(engine):
    whole = engine.complete("Say hello.", max_tokens=20, temperature=0).text
    stop = whole[8:12]
    answer = engine.complete("Say hello.", max_tokens=20, temperature=0, stop=stop)

    assert answer.text == whole[: whole.index(stop)]
    assert (answer.finish_reason, answer.choices[0].matched_stop) == ("stop", stop)
    assert answer.usage.prompt_tokens > 10


def test_a_prompt_can_be_continued_instead_of_answered():
    with Local(context=64, parallel=1, api="completions") as engine:
        answer = engine.complete("One, two, three,", max_tokens=2, temperature=0)

    assert answer.text.startswith(" four")
    # No more than its own words: nothing makes a conversation of it.
    assert answer.usage.prompt_tokens < 10


def test_no_token_asked_for_is_an_empty_answer(engine):
    answer = engine.complete("x", max_tokens=0)

    assert (answer.text, answer.finish_reason) == ("", "length")


def test_numbers_beyond_the_librarys_are_taken(engine):
    answer = engine.complete(
        "Say hello.", seed=-(2**63), max_tokens=2**63 - 1, stop=["!", ".", " "]
    )

    assert answer.finish_reason == "stop"


def test_a_prompt_beyond_the_context_is_the_callers_fault(engine):
    with pytest.raises(InvalidInput, match="a context of 256") as raised:
        engine.complete("word " * 1000)
    assert raised.value.code == "engine.context-full"
    assert engine.complete("Say hello.", max_tokens=2).finish_reason == "length"


@pytest.mark.promise("inference.length")
def test_an_answer_that_fills_the_context_ends_as_length(engine):
    answer = engine.complete("Count. " + "1, 2, 3, " * 20, temperature=0)

    assert answer.finish_reason == "length"
    assert answer.usage.total_tokens == CONTEXT


def test_an_empty_prompt_is_refused_before_the_model_is_asked(engine):
    with pytest.raises(InvalidInput, match="the prompt is empty"):
        engine.generate("")


def test_many_requests_wait_for_their_turn(engine):
    async def all_of_them():
        asks = [engine.acomplete("Say hello.", max_tokens=3, seed=at) for at in range(7)]
        return await asyncio.gather(*asks)

    answers = asyncio.run(all_of_them())
    assert [answer.usage.completion_tokens for answer in answers] == [3] * 7


def test_an_answer_through_a_guard_keeps_its_text(engine):
    asked = {"max_tokens": 20, "temperature": 0}
    bare = engine.complete(LONG, **asked)
    shaped = engine.complete(LONG, through=lambda: torvyn.Flow(Sentence()), **asked)

    assert (shaped.text, shaped.usage.completion_tokens) == (bare.text, 20)


def test_a_closed_engine_takes_no_more_requests():
    engine = Local(context=64, parallel=1)
    engine.close()
    engine.close()

    with pytest.raises(Unavailable, match="closed"):
        engine.complete("x")


def test_it_is_the_source_of_a_flow_in_a_manifest(tmp_path, shell):
    (tmp_path / "Torvyn.toml").write_text(
        '[torvyn]\nname = "x"\nversion = "0.1.0"\ncontract_version = "0.1.0"\n'
        '[flow.main.nodes.model]\ncomponent = "engine:local"\n'
        'config = { prompt = "Say hello.", max_tokens = 5, temperature = 0, context = 128 }\n'
        '[flow.main.nodes.answer]\ncomponent = "response"\n'
        '[[flow.main.edges]]\nfrom = "model"\nto = "answer"\n'
    )

    assert shell("torvyn run -q", tmp_path).startswith("Hello")


def test_a_model_that_is_not_there_is_named(tmp_path):
    with pytest.raises(MissingError, match="cannot be read"):
        Local(model=tmp_path / "no.gguf")
    with pytest.raises(MissingError, match="cannot be read"):
        Local(model=tmp_path)


def _cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


def _bad_count(data: bytes) -> bytes:
    return data[:8] + b"\xff" * 16 + data[24:4096]


BROKEN = {
    "no-gguf": lambda data: b"PK\x03\x04" + data[4:4096],
    "empty": lambda data: b"",
    "magic-alone": lambda data: data[:4],
    "header-alone": lambda data: data[:24],
    "cut": _cut,
    "bad-count": _bad_count,
    "noise": lambda data: data[:24] + bytes(range(256)) * 16,
}


@pytest.mark.parametrize("way", BROKEN)
def test_a_broken_model_is_an_error_and_not_a_crash(tmp_path: Path, way, capfd):
    path = tmp_path / "broken.gguf"
    path.write_bytes(BROKEN[way](bundled_model().read_bytes()))

    with pytest.raises(InvalidInput, match=r"`broken.gguf` is not a complete GGUF file") as raised:
        Local(model=path)
    assert raised.value.code == "engine.model-unusable"
    assert capfd.readouterr() == ("", "")


@pytest.mark.promise("responses.real-early-end")
def test_leaving_ends_the_thread_and_frees_the_slot(engine):
    for _ in range(3):  # more than there are slots
        for delta in engine.generate(LONG):
            if delta.text:
                break
    wait_until(lambda: not engine._runs and not engine._server._running)

    assert engine.complete("Say hello.", max_tokens=2).usage.completion_tokens == 2


def test_an_abort_counts_what_was_made(engine):
    generation = engine.generate(LONG, request_id="mine")
    deltas = iter(generation)
    next(deltas)
    assert engine.abort("mine")
    rest = list(deltas)

    assert rest[-2].finish_reason == "cancelled"
    assert rest[-1].usage.prompt_tokens > 10
    assert rest[-1].usage.completion_tokens >= 1
