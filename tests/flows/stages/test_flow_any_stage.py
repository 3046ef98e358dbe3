"""What `Flow` accepts as a stage: names of built-in components, and plain functions."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import pytest

import torvyn
from torvyn.errors import ContractError, LinkError
from torvyn.testing import run_flow

WORDS = ["One", " two", ".", " Three"]


def texts(*stages: object) -> list[str]:
    return [element.text for element in torvyn.Flow(*stages)]  # type: ignore[arg-type]


def test_the_name_of_a_built_in_component_is_a_stage() -> None:
    flow = torvyn.Flow(WORDS, "sentence")

    assert [element.text for element in flow] == ["One two. ", "Three"]
    assert [*flow.statistics.nodes] == ["source", "sentence"]


def test_the_same_name_twice_gives_two_nodes() -> None:
    flow = torvyn.Flow(WORDS, "sentence", "sentence", "null")

    assert [*flow.run().nodes] == ["source", "sentence", "sentence-2", "null"]


def test_a_misspelt_name_gets_a_suggestion() -> None:
    with pytest.raises(LinkError) as caught:
        torvyn.Flow(WORDS, "sentense").run()

    assert caught.value.code == "link.component-unknown"
    assert caught.value.hint == "did you mean `sentence`?"


def test_a_text_that_is_no_name_gets_the_way_to_send_it() -> None:
    with pytest.raises(LinkError) as caught:
        torvyn.Flow("Once upon a time", "sentence").plan  # noqa: B018

    assert "texts to send go into a list" in str(caught.value.hint)


def test_the_test_kit_takes_names_and_functions() -> None:
    run = run_flow(WORDS, "sentence", lambda element: element.text.upper())

    assert run.texts == ["ONE TWO. ", "THREE"]


class Shout:
    def __call__(self, element: torvyn.Element) -> str:
        return element.text.upper()

    def method(self, element: torvyn.Element) -> str:
        return element.text.upper()


def shout(element: torvyn.Element, end: str = "") -> str:
    return element.text.upper() + end


async def shout_async(element: torvyn.Element) -> str:
    return element.text.upper()


@pytest.mark.parametrize(
    "function",
    [shout, shout_async, lambda element: element.text.upper(), Shout(), Shout().method],
)
def test_a_function_of_an_element_is_a_processor(function: object) -> None:
    assert texts(["a", "b"], function) == ["A", "B"]


def test_a_partial_function_is_a_processor() -> None:
    assert texts(["a"], functools.partial(shout, end="!")) == ["A!"]


def test_what_a_function_returns_means_what_it_means_for_a_processor() -> None:
    answers = {"none": None, "text": "x", "bytes": b"y", "list": ["p", "q"], "same": ...}

    def answer(element: torvyn.Element) -> object:
        found = answers[element.text]
        return element if found is ... else found

    assert texts([*answers], answer) == ["x", "y", "p", "q", "same"]


def test_a_function_without_an_argument_is_a_source() -> None:
    assert texts(lambda: ["a", "b"], shout) == ["A", "B"]


def test_a_generator_function_with_an_argument_reads_the_stream() -> None:
    def pairs(stream: Iterator[torvyn.Element]) -> Iterator[str]:
        for first in stream:
            yield first.text + next(stream).text

    assert texts(["a", "b", "c", "d"], pairs) == ["ab", "cd"]


def test_a_predicate_is_told_to_be_a_filter() -> None:
    with pytest.raises(ContractError) as caught:
        texts(["a"], lambda element: element.text == "a")

    assert "returned bool" in str(caught.value)
    assert "wrap it in `torvyn.filter(...)`" in str(caught.value)


def test_a_function_that_needs_more_arguments_is_refused() -> None:
    with pytest.raises(LinkError) as caught:
        texts(["a"], lambda element, more: more)

    assert caught.value.code == "contract.wrong-signature"


def test_a_class_that_is_no_component_is_refused() -> None:
    with pytest.raises(ContractError) as caught:
        texts(["a"], Shout)

    assert caught.value.code == "contract.not-a-component"
