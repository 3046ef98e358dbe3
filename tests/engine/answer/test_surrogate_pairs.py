"""Halves of surrogate pairs from an engine: joined across steps, for each choice and kind alone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

import torvyn
from torvyn.components import Sentence
from torvyn.engine import ChoiceStep, Engine, Request, Step
from torvyn.engine.answer.response import Response
from torvyn.protocol.frames import ToolCall

HIGH, LOW = "\ud83d", "\ude00"
LONE = "\ufffd"


def halves(text: str) -> str:
    """The text as UTF-16 has it: one character for each unit."""
    data = text.encode("utf-16-le")
    return "".join(
        chr(int.from_bytes(data[at : at + 2], "little")) for at in range(0, len(data), 2)
    )


class Says(Engine):
    name = "says"

    def __init__(self, *parts: ChoiceStep) -> None:
        super().__init__()
        self._parts = parts

    async def steps(self, request: Request) -> AsyncIterator[Step]:
        for part in self._parts:
            yield Step((part,))


def answer(*parts: ChoiceStep, **options):
    return Says(*parts).complete("x", **options)


@given(
    st.text(alphabet=st.sampled_from("ab é漢😀👩"), max_size=20),
    st.lists(st.integers(0, 60), max_size=10),
    st.sampled_from([None, "b", "😀"]),
)
def test_text_is_the_same_wherever_its_pairs_were_cut(text, cuts, stop):
    units = halves(text)
    places = sorted({0, len(units), *(cut % (len(units) + 1) for cut in cuts)})
    parts = [ChoiceStep(text=units[a:b]) for a, b in pairwise(places)]

    whole = answer(*parts, stop=stop)

    assert whole.text == (text if stop is None else text.partition(stop)[0])


@pytest.mark.parametrize(
    ("texts", "whole"),
    [
        ((HIGH, LOW), "😀"),
        (("a" + HIGH, LOW + "b"), "a😀b"),
        ((HIGH,), LONE),
        ((LOW,), LONE),
        ((HIGH, HIGH, LOW), LONE + "😀"),
        ((HIGH, "a"), LONE + "a"),
        ((LOW, HIGH), LONE + LONE),
        ((HIGH, "", LOW), "😀"),
    ],
)
def test_a_half_that_stays_alone_is_replaced(texts, whole):
    made = answer(*(ChoiceStep(text=text) for text in texts))

    assert (made.text, made.finish_reason) == (whole, "stop")


def test_each_choice_has_halves_of_its_own():
    parts = [ChoiceStep(0, text=HIGH), ChoiceStep(1, text=HIGH), ChoiceStep(0, text=LOW)]

    assert [one.text for one in answer(*parts, n=2).choices] == ["😀", LONE]


def test_each_kind_has_halves_of_its_own():
    parts = [
        ChoiceStep(text="Hm" + HIGH, kind="reasoning"),
        ChoiceStep(text=HIGH),
        ChoiceStep(text=LOW, kind="reasoning"),
        ChoiceStep(text=LOW),
    ]

    (choice,) = answer(*parts).choices

    assert (choice.reasoning, choice.text) == ("Hm😀", "😀")


def test_each_call_has_halves_of_its_own():
    calls = [
        ToolCall(0, "c1", "look", '{"a": "' + HIGH),
        ToolCall(1, "c2", "see", HIGH),
        ToolCall(0, arguments=LOW + '"}'),
    ]

    (choice,) = answer(*(ChoiceStep(kind="tool_call", call=call) for call in calls)).choices

    assert [call.arguments for call in choice.tool_calls] == ['{"a": "😀"}', LONE]


@pytest.mark.parametrize("stop", [None, "never"])
def test_a_half_of_another_kind_leaves_before_the_finish(stop):
    parts = [ChoiceStep(text="a" + HIGH), ChoiceStep(text="Hm", kind="reasoning")]

    (choice,) = answer(*parts, stop=stop).choices

    assert (choice.text, choice.reasoning) == ("a" + LONE, "Hm")


def test_a_cancelled_answer_drops_the_half_it_holds():
    made = Response(Request.make("x"))
    made.pieces(Step((ChoiceStep(text="a" + HIGH),)))

    assert [delta.text for delta in made.end("cancelled")] == ["", ""]


def test_an_answer_with_halves_goes_through_a_flow():
    parts = [ChoiceStep(text=text) for text in ("One " + HIGH, LOW + ". Two", HIGH)]

    whole = answer(*parts, through=lambda: torvyn.Flow(Sentence()))

    assert whole.text == f"One 😀. Two{LONE}"


def test_a_source_of_a_flow_gives_whole_characters():
    engine = Says(ChoiceStep(text="a" + HIGH), ChoiceStep(text=LOW))

    assert list(torvyn.Flow(engine.source("x")).text()) == ["a", "😀"]
