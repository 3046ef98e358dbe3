"""The scripted engine says the same for the same script, request and seed, and fails on cue."""

from __future__ import annotations

import asyncio
import inspect
import subprocess
import sys

import pytest

import torvyn
from torvyn.components.builtin.source_scripted import SPEC as SOURCE
from torvyn.engine import Scripted, open
from torvyn.engine.generation import Generation
from torvyn.engine.nodes.source import REQUEST_OPTIONS
from torvyn.engine.nodes.source_scripted import SPEC, ScriptedSource
from torvyn.engine.request import Request
from torvyn.errors import ContractError, InvalidInput, MissingError, Unavailable
from torvyn.protocol.frames import ToolCall
from torvyn.testing import Clock

ANSWERS = ["One.", "Two.", "Three."]


def texts(engine, **options):
    return [choice.text for choice in engine.complete("x", **options).choices]


def test_text_is_cut_into_words_and_loses_nothing():
    deltas = list(Scripted("  Hello,\nwide  world. ").generate("x"))

    assert [d.text for d in deltas[:-2]] == ["  Hello,", "\nwide", "  world.", " "]


def test_characters_cut_over_tokens_arrive_whole():
    (choice,) = Scripted("👨‍👩‍👧 漢字 é", token_bytes=1).complete("x").choices

    assert choice.text == "👨‍👩‍👧 漢字 é"


def test_token_ids_say_the_same_as_bytes():
    script = ["Grüße", b" \xe6\xbc", b"\xa2", ("reasoning", "Hm"), "!"]
    as_bytes, as_ids = Scripted(script), Scripted(script, uses_ids=True)

    deltas = [delta for delta in as_ids.generate("x") if delta.text]

    assert as_ids.complete("x").choices == as_bytes.complete("x").choices
    assert [list(delta.token_ids) for delta in deltas] == [[0], [1], [2], [3], [4]]
    assert as_ids.vocabulary[0] == "Grüße".encode()


def test_choices_differ_and_the_seed_decides_which():
    engine = Scripted(answers=ANSWERS)

    assert texts(engine, n=4) == [*ANSWERS, "One."]
    assert texts(engine, n=4, seed=1) == texts(engine, n=4, seed=1)
    assert len({tuple(texts(engine, n=4, seed=seed)) for seed in range(20)}) > 5


def test_another_process_says_the_same():
    asked = "complete('x', n=4, seed=9, logprobs=True).choices"
    code = f"from torvyn.engine import Scripted; print(Scripted(answers={ANSWERS}).{asked})"
    run = [sys.executable, "-c", code]
    done = subprocess.run(run, check=True, capture_output=True, text=True)

    whole = Scripted(answers=ANSWERS).complete("x", n=4, seed=9, logprobs=True)
    assert done.stdout.strip() == str(whole.choices)


def test_a_function_makes_the_script_of_the_request():
    engine = Scripted(lambda request, index: [f"{index}:", request.prompt or ""])

    assert texts(engine, n=2) == ["0:x", "1:x"]


def test_reasoning_and_calls_of_tools_are_no_text():
    call = [ToolCall(0, "c1", "weather", '{"city":'), ToolCall(0, None, None, '"Rome"}')]
    engine = Scripted([("reasoning", "Hm."), "Look: ", *call], finish_reason="tool_calls")

    (choice,) = engine.complete("x").choices

    assert (choice.reasoning, choice.text, choice.finish_reason) == ("Hm.", "Look: ", "tool_calls")
    assert choice.tool_calls == (ToolCall(0, "c1", "weather", '{"city":"Rome"}'),)


def test_usage_counts_prompt_text_and_reasoning():
    usage = Scripted([("reasoning", "Hm."), "a", "b"]).complete("two words").usage

    assert (usage.prompt_tokens, usage.completion_tokens, usage.reasoning_tokens) == (2, 3, 1)


def test_every_token_has_its_log_probability():
    whole = Scripted("a b c").complete("x", logprobs=True, top_logprobs=2)

    assert [entry["token"] for entry in whole.choices[0].logprobs] == ["a", " b", " c"]
    assert all(len(entry["top_logprobs"]) == 2 for entry in whole.choices[0].logprobs)


def test_it_fails_where_it_is_told_to():
    engine = Scripted("a b c", fail_at=1, error=Unavailable("gone"))
    seen = []
    with pytest.raises(Unavailable, match="gone"):
        seen += (seen.append(d.text) or d for d in engine.generate("x"))

    assert seen[0] == "a"
    assert "".join(part for part in seen if isinstance(part, str)) == "a"


def test_pauses_are_as_long_as_they_are_told_to_be():
    slept = []

    async def sleep(seconds):
        slept.append(seconds)

    engine = Scripted(["a", 0.5, "b"], delay=0.1, first_delay="2s", sleep=sleep)

    assert texts(engine) == ["ab"]
    assert slept == [2, 0.5, 0.1]


@pytest.mark.promise("inference.prompt-end")
@pytest.mark.parametrize("choices", [1, 3])
@pytest.mark.parametrize("step_tokens", [1, 4, 20])
@pytest.mark.parametrize("tokens", [0, 1, 2, 10])
def test_the_end_follows_the_last_token_at_once(choices, step_tokens, tokens):
    clock = Clock()

    async def sleep(seconds):
        clock.advance(seconds)

    options = {"delay": "300ms", "first_delay": "1s", "step_tokens": step_tokens, "sleep": sleep}
    engine, began_s = Scripted(["word "] * tokens, **options), clock.now_s
    generation = Generation(engine, Request.make("x", n=choices), clock)

    async def read():
        return [(clock.now_s - began_s, bool(delta.text)) async for delta in generation]

    times = asyncio.run(read())
    steps = -(-tokens // step_tokens)
    last_s = pytest.approx(1 + 0.3 * max(0, steps - 1))
    assert max((at_s for at_s, is_text in times if is_text), default=1) == last_s
    assert times[-1][0] == last_s
    assert generation.timing["duration_s"] == last_s


@pytest.mark.promise("inference.prompt-end")
def test_ten_words_a_third_of_a_second_apart_take_nine_pauses():
    clock = Clock()

    async def sleep(seconds):
        clock.advance(seconds)

    engine = Scripted("a b c d e f g h i j", delay="300ms", sleep=sleep)
    generation = Generation(engine, Request.make("x"), clock)
    asyncio.run(generation.acomplete())

    figures = generation.timing
    assert figures["duration_s"] == pytest.approx(2.7)
    assert figures["tokens_per_s"] == pytest.approx(10 / 2.7)


def test_an_error_comes_where_its_token_would_have_come():
    slept = []

    async def sleep(seconds):
        slept.append(seconds)

    engine = Scripted("a b c", delay=1, fail_at=2, sleep=sleep)
    with pytest.raises(Unavailable):
        engine.complete("x")

    assert slept == [1, 1]


@pytest.mark.promise("responses.empty-output")
@pytest.mark.parametrize("limit", [0, 1, 2])
def test_it_is_told_when_it_is_cut(limit):
    engine = Scripted("a b c")

    whole = engine.complete("x", max_tokens=limit, request_id="mine")

    assert whole.finish_reason == "length"
    assert whole.usage.completion_tokens == limit
    assert engine.aborted == (["mine"] if limit else [])


@pytest.mark.promise("responses.empty-output")
def test_nothing_to_say_is_an_answer():
    whole = Scripted([]).complete("x")

    assert (whole.text, whole.finish_reason, whole.usage.completion_tokens) == ("", "stop", 0)


@pytest.mark.parametrize(
    "options",
    [
        {"text": "a", "answers": ["b"]},
        {"text": "a", "tokens": ["b"]},
        {"delay": -1},
        {"delay": "soon"},
        {"token_bytes": 0},
        {"finish_reason": "x"},
    ],
)
def test_a_script_that_cannot_be_is_refused(options):
    with pytest.raises(InvalidInput):
        Scripted(**options)


def test_engines_are_opened_by_name_or_by_class():
    assert isinstance(open("scripted", text="a"), Scripted)
    assert isinstance(torvyn.engine.open("torvyn.engine.scripted:Scripted"), Scripted)


@pytest.mark.parametrize("name", ["scriptd", "no.such:Thing", "json:loads", ""])
def test_an_unknown_engine_is_missed(name):
    with pytest.raises(MissingError) as caught:
        open(name)

    assert caught.value.code == "engine.unknown"


def test_an_unknown_option_is_refused_with_those_there_are():
    with pytest.raises(InvalidInput) as caught:
        open("scripted", sript="a")

    assert "`text`" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("old", "name"),
    [("script", "text"), ("delay_s", "delay"), ("first_delay_s", "first_delay"), ("txt", "text")],
)
def test_another_name_of_an_option_leads_to_its_name_everywhere(old, name):
    with pytest.raises(InvalidInput) as in_a_program:
        open("scripted", **{old: "a"})
    with pytest.raises(ContractError) as in_a_manifest:
        ScriptedSource().options({old: "a"})

    assert f"did you mean `{name}`?" in (in_a_program.value.hint or "")
    assert f"did you mean `{name}`?" in (in_a_manifest.value.hint or "")


def test_the_options_have_the_same_names_in_programs_and_in_manifests():
    in_a_program = set(inspect.signature(Scripted).parameters)
    own = {option.name for option in SPEC.options} - {option.name for option in REQUEST_OPTIONS}

    # The node repeats its prompt with `echo`; a program writes a function.
    assert own - in_a_program == {"echo"}
    shared = {"tokens", "text", "delay"}
    assert shared <= own & {option.name for option in SOURCE.options}
