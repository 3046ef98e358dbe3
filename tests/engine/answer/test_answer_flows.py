"""An answer through a flow: the same text as the flow gives, one finish a choice, nothing mixed."""

from __future__ import annotations

import asyncio

import pytest
from flow_components import STAGES, AsyncFails, Fails, Footer, Upper, blocks, upper_flow
from hypothesis import given, settings
from hypothesis import strategies as st
from observed_engines import Endless, nothing_runs, wait_until
from scale import sample

import torvyn
from torvyn.components import Collect, Sentence
from torvyn.engine import ChoiceStep, Engine, Scripted, Step
from torvyn.errors import FlowError, LinkError
from torvyn.protocol.frames import ToolCall

TEXT = "Hello there. How are you? I am well, thank you. And"


def read(engine, way="for", **options):
    """The deltas, by `for` or by `async for`."""
    generation = engine.generate("x", **options)

    async def all_of_it():
        return [delta async for delta in generation]

    return list(generation) if way == "for" else asyncio.run(all_of_it())


def texts(deltas, index=0, kind="text"):
    return [d.text for d in deltas if d.text and (d.index, d.kind) == (index, kind)]


def finishes(deltas):
    return [(d.index, d.finish_reason) for d in deltas if d.finish_reason is not None]


def fed(make_flow, tokens):
    """What the flow gives to somebody who feeds it."""
    flow = make_flow()
    out = [element.text for token in tokens for element in flow.feed(token)]
    return out + [element.text for element in flow.finish()]


@pytest.mark.parametrize("way", ["for", "async for"])
@pytest.mark.parametrize("where", STAGES)
def test_an_answer_through_a_flow_is_what_the_flow_makes_of_it(where, way):
    deltas = read(Scripted(TEXT), way, through=upper_flow(where))

    assert texts(deltas) == fed(upper_flow("inline"), [TEXT])
    assert finishes(deltas) == [(0, "stop")]
    assert deltas[-1].usage.completion_tokens == len(TEXT.split())


@settings(max_examples=sample(10, full=30), deadline=None)
@given(
    tokens=st.lists(st.text("ab. \n!", min_size=1, max_size=4), max_size=40),
    step=st.integers(1, 7),
    uses_ids=st.booleans(),
)
def test_it_is_so_however_the_tokens_are_cut(tokens, step, uses_ids):
    def make():
        return torvyn.Flow(blocks("ab", action="replace"), Sentence())

    engine = Scripted(tokens, step_tokens=step, uses_ids=uses_ids)

    assert "".join(texts(read(engine, "async", through=make))) == "".join(fed(make, tokens))


@pytest.mark.parametrize("where", STAGES)
def test_choices_never_mix(where):
    engine = Scripted(answers=["One. Two. Three", "Un. Deux. Trois"])
    deltas = read(engine, through=upper_flow(where), n=2)

    assert texts(deltas, 0) == ["ONE. ", "TWO. ", "THREE"]
    assert texts(deltas, 1) == ["UN. ", "DEUX. ", "TROIS"]
    assert sorted(finishes(deltas)) == [(0, "stop"), (1, "stop")]


@pytest.mark.parametrize("where", STAGES)
def test_reasoning_and_text_never_mix(where):
    script = [("reasoning", "Let me"), " Well", ("reasoning", " think."), ", yes."]
    deltas = read(Scripted(script), through=upper_flow(where))

    assert "".join(texts(deltas, kind="reasoning")) == "LET ME THINK."
    assert "".join(texts(deltas)) == " WELL, YES."


def test_calls_of_tools_go_past_the_flow():
    script = ["a", ToolCall(0, "c", "f", '{"a":'), ToolCall(0, arguments="1}"), "b"]
    deltas = read(Scripted(script), through=lambda: torvyn.Flow(Upper()))

    assert [d.call.arguments for d in deltas if d.call] == ['{"a":', "1}"]
    assert [d.text or "call" for d in deltas if d.text or d.call] == [
        "A",
        "call",
        "call",
        "B",
    ]


@pytest.mark.promise("inference.safety-filter")
@pytest.mark.parametrize("way", ["for", "async for"])
@pytest.mark.parametrize("stage", [None, *STAGES])
def test_a_block_finishes_once_and_the_engine_hears_of_it(stage, way):
    engine = Scripted(["fine ", "bad", "word ", *["more "] * 5000])

    def make():
        return torvyn.Flow(blocks("badword"), *([STAGES[stage]()] if stage else []))

    deltas = read(engine, way, through=make, request_id="r")
    assert "".join(texts(deltas)).lower() == "fine "
    assert finishes(deltas) == [(0, "content_filter")]
    assert engine.aborted == ["r"]
    assert 3 <= deltas[-1].usage.completion_tokens < 5000


@pytest.mark.promise("inference.safety-filter")
def test_a_blocked_engine_has_ended_before_the_finish_is_seen():
    engine = Scripted(["badword ", *["more "] * 5000])

    async def seen():
        async for delta in engine.generate("x", through=lambda: torvyn.Flow(blocks("badword"))):
            if delta.finish_reason:
                return list(engine.aborted)
        return []

    assert len(asyncio.run(seen())) == 1


def test_one_blocked_choice_leaves_the_other_its_answer():
    engine = Scripted(answers=["a badword b", "a good word"])
    deltas = read(engine, through=lambda: torvyn.Flow(blocks("badword")), n=2)

    assert ("".join(texts(deltas, 0)), "".join(texts(deltas, 1))) == ("a ", "a good word")
    assert sorted(finishes(deltas)) == [(0, "content_filter"), (1, "stop")]


def test_reasoning_that_is_blocked_ends_the_choice():
    script = [("reasoning", "the badword"), ("reasoning", " again"), "Hello."]
    deltas = read(Scripted(script), through=lambda: torvyn.Flow(blocks("badword")))

    assert finishes(deltas) == [(0, "content_filter")]
    assert texts(deltas) == []


@pytest.mark.parametrize("way", ["for", "async for"])
@pytest.mark.parametrize("stage", [Fails, AsyncFails])
def test_a_component_that_fails_ends_the_choice_as_error_and_raises_after_it(stage, way):
    engine = Scripted(["good ", "bad ", *["more "] * 5000])
    got = []

    async def awaited():
        async for delta in engine.generate("x", through=lambda: torvyn.Flow(stage())):
            got.append(delta)

    with pytest.raises(FlowError, match="a bad word"):
        if way == "for":
            for delta in engine.generate("x", through=lambda: torvyn.Flow(stage())):
                got.append(delta)
        else:
            asyncio.run(awaited())
    assert texts(got) == ["good "]
    assert finishes(got) == [(0, "error")]
    assert got[-1].usage is not None
    assert len(engine.aborted) == 1


class WithoutFinish(Engine):
    """Ends without a finish reason, so the text that a stop string holds back leaves last."""

    name = "without-finish"

    async def steps(self, request):
        for word in ("good ", "bad"):
            yield Step((ChoiceStep(text=word),))


@pytest.mark.parametrize("stage", [Fails, AsyncFails])
def test_a_component_that_fails_on_its_last_input_ends_the_choice_as_error(stage):
    got = []

    with pytest.raises(FlowError, match="a bad word"):
        for delta in WithoutFinish().generate(
            "x", through=lambda: torvyn.Flow(stage()), stop="badly"
        ):
            got.append(delta)
    assert texts(got) == ["good "]
    assert finishes(got) == [(0, "error")]
    assert got[-1].usage is not None


def test_what_left_the_flow_before_it_failed_is_delivered():
    engine = Scripted(["good ", "bad ", "more "], step_tokens=3)
    deltas = engine.generate("x", through=lambda: torvyn.Flow(Fails()))

    assert next(iter(deltas)).text == "good "


@pytest.mark.parametrize("where", STAGES)
def test_an_engine_that_fails_ends_as_error_after_what_it_said(where):
    engine, got = Scripted("One. Two. Three", fail_at=2), []

    with pytest.raises(torvyn.Unavailable, match="the script fails here"):
        for delta in engine.generate("x", through=upper_flow(where)):
            got.append(delta)
    assert texts(got) == ["ONE. ", "TWO."]
    assert finishes(got) == [(0, "error")]


@pytest.mark.parametrize("where", STAGES)
def test_length_passes_through_and_what_was_held_is_released(where):
    deltas = read(Scripted(TEXT), through=upper_flow(where), max_tokens=3)

    assert texts(deltas) == ["HELLO THERE. ", "HOW"]
    assert finishes(deltas) == [(0, "length")]


def test_a_stop_string_passes_through_with_its_name():
    deltas = read(Scripted(TEXT), through=upper_flow("inline"), stop=["are"])
    last = next(delta for delta in deltas if delta.finish_reason)

    assert "".join(texts(deltas)) == "HELLO THERE. HOW "
    assert (last.finish_reason, last.matched_stop) == ("stop", "are")


@pytest.mark.parametrize("script", [[], ["text"]])
def test_a_flow_may_add_text_at_the_end_also_to_an_empty_answer(script):
    deltas = read(Scripted(script), through=lambda: torvyn.Flow(Footer()))

    assert "".join(texts(deltas)) == "".join(script) + "(end)"


def test_the_first_text_that_is_released_stops_the_clock():
    now_s = [0.0]

    async def passes(delay_s):
        now_s[0] += delay_s

    engine = Scripted("One two three. Four", delay=1.0, sleep=passes)
    generation = torvyn.engine.Generation(
        engine,
        torvyn.engine.Request.make("x"),
        clock=lambda: now_s[0],
        through=lambda: torvyn.Flow(Sentence()),
    )
    asyncio.run(generation.acomplete())

    # `three.` is a sentence when ` Four` has come, after three pauses.
    assert generation.timing["ttft_s"] == 3.0


def test_log_probabilities_go_along_where_elements_are_kept():
    deltas = read(Scripted("a b"), through=lambda: torvyn.Flow(Sentence()), logprobs=True)
    kept = read(Scripted("a b"), through=lambda: torvyn.Flow(blocks("zzz")), logprobs=True)

    assert "".join(texts(deltas)) == "".join(texts(kept)) == "a b"


def test_a_flow_with_a_source_or_a_sink_is_refused_before_the_engine_is_asked():
    for flow in (torvyn.Flow(["a"], Upper()), torvyn.Flow(Upper(), Collect())):
        with pytest.raises(LinkError) as raised:
            Scripted().generate("x", through=lambda flow=flow: flow)
        assert raised.value.code == "engine.flow-unfit"


@pytest.mark.parametrize("where", STAGES)
def test_leaving_the_loop_leaves_nothing_running(where):
    engine = Endless()
    for delta in engine.generate("x", through=lambda: torvyn.Flow(STAGES[where]())):
        if delta.text:
            break
    wait_until(engine.left.is_set)
    wait_until(lambda: nothing_runs(engine))
