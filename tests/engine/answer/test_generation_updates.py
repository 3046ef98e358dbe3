"""What ends an answer can be changed while it is made, for text that was not released."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from flow_components import AsyncUpper, Upper
from observed_engines import SOON_S

import torvyn
from torvyn.engine import ChoiceStep, Engine, Request, Scripted, Step
from torvyn.engine.answer.response import Response
from torvyn.engine.delta import as_delta
from torvyn.errors import InvalidInput


class Dictated(Engine):
    """Says what the test tells it, when it does, in every choice."""

    name = "dictated"

    def __init__(self) -> None:
        super().__init__()
        self.tokens: asyncio.Queue[str] = asyncio.Queue()
        self.is_left = False

    async def steps(self, request: Request) -> AsyncIterator[Step]:
        try:
            while True:
                token = await self.tokens.get()
                yield Step([ChoiceStep(index, text=token) for index in range(request.n)])
        finally:
            self.is_left = True


async def heard(generation, *said):
    """Reads to the end; `said` are told the engine or done, one after each delta."""
    deltas = []
    steps = iter(said)
    next(steps)()
    async with asyncio.timeout(SOON_S):
        async for delta in generation:
            deltas.append(delta)
            if delta.finish_reason is None and delta.text and (step := next(steps, None)):
                step()
    return deltas


def text_of(deltas):
    return "".join(delta.text for delta in deltas)


def test_a_limit_below_what_was_made_ends_it_though_the_engine_is_silent():
    async def story():
        engine = Dictated()
        generation = engine.generate("x")
        deltas = await heard(
            generation,
            lambda: engine.tokens.put_nowait("one "),
            lambda: generation.update(max_tokens=1),
        )
        return engine, generation, deltas

    engine, generation, deltas = asyncio.run(story())

    assert text_of(deltas) == "one "
    assert generation.finish_reasons == ("length",)
    assert engine.is_left
    assert generation.usage.completion_tokens == 1


def test_a_stop_counts_what_was_made_whatever_the_engine_told_before():
    async def story():
        generation = Scripted("one two three", delay=0.001).generate("x")
        async for delta in generation:
            if delta.text:
                generation.stop()
        return generation.usage

    assert asyncio.run(story()).completion_tokens == 1


@pytest.mark.parametrize("stage", [None, Upper, AsyncUpper])
def test_new_stops_are_found_in_what_was_held(stage):
    async def story():
        engine = Dictated()
        through = None if stage is None else lambda: torvyn.Flow(stage())
        generation = engine.generate("x", stop=["abcdef"], through=through)
        deltas = await heard(
            generation,
            lambda: engine.tokens.put_nowait("x-abc"),
            lambda: generation.update(stop=["b"]),
        )
        return generation, deltas

    generation, deltas = asyncio.run(story())

    assert text_of(deltas).lower() == "x-a"
    assert generation.finish_reasons == ("stop",)
    assert [delta.matched_stop for delta in deltas if delta.finish_reason] == ["b"]


@pytest.mark.parametrize(("stop", "said"), [([], "x-abcdef"), (["zz"], "x-abcdef")])
def test_what_no_stop_holds_any_more_is_released(stop, said):
    async def story():
        engine = Dictated()
        generation = engine.generate("x", stop=["abcde"])

        def go_on():
            generation.update(stop=stop, max_tokens=2)
            engine.tokens.put_nowait("def")

        return await heard(generation, lambda: engine.tokens.put_nowait("x-abc"), go_on)

    assert text_of(asyncio.run(story())) == said


def test_an_update_before_the_first_delta_is_what_the_engine_is_asked():
    generation = Scripted("one two three four").generate("x", max_tokens=1)

    generation.update(stop="three", max_tokens=10)

    assert generation.complete().text == "one two "
    assert (generation.request.max_tokens, generation.request.stop) == (10, ("three",))


def test_only_the_choices_that_have_enough_end():
    made = Response(Request.make("x", n=2))
    made.pieces(Step([ChoiceStep(0, text="a"), ChoiceStep(0, text="b"), ChoiceStep(1, text="c")]))

    assert not made.update(Request.make("x", n=2, max_tokens=2), is_stop=False, is_limit=True)
    deltas = made.pieces(Step([ChoiceStep(0, text="d"), ChoiceStep(1, text="e")]))

    assert made.finish_reasons == ("length", "length")
    assert [(delta.index, delta.text) for delta in deltas] == [(0, ""), (1, "e")]


def test_text_that_is_released_during_reasoning_is_text():
    made = Response(Request.make("x", stop=["abc"]))
    made.pieces(Step([ChoiceStep(0, text="ab")]))
    made.pieces(Step([ChoiceStep(0, text="hm", kind="reasoning")]))

    made.update(Request.make("x", stop=["z"]), is_stop=True, is_limit=False)
    deltas = made.pieces(Step([ChoiceStep(0, text="mm", kind="reasoning")]))

    assert [(delta.kind, delta.text) for delta in map(as_delta, deltas)] == [
        ("text", "ab"),
        ("reasoning", "mm"),
    ]


@pytest.mark.parametrize("changes", [{"stop": [""]}, {"max_tokens": -1}, {"stop": ["x"] * 17}])
def test_an_update_that_does_not_fit_changes_nothing(changes):
    generation = Scripted("one two").generate("x")

    with pytest.raises(InvalidInput):
        generation.update(**changes)

    assert generation.complete().text == "one two"


def test_an_update_after_the_end_does_nothing():
    generation = Scripted("one two").generate("x")
    text = generation.complete().text

    generation.update(stop=["one"], max_tokens=1)

    assert (text, generation.finish_reasons) == ("one two", ("stop",))
