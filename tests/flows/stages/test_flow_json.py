"""A dict or a dataclass is sent as JSON, wherever a payload is, and `element.json()` reads it."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field

import pytest

import torvyn
from torvyn._contract.element import PureElement
from torvyn.errors import ContractError
from torvyn.testing import run_flow

DICT = {"sensor": "kiln é", "celsius": 21.5, "tags": ["a", None, True]}
TEXT = '{"sensor":"kiln é","celsius":21.5,"tags":["a",null,true]}'


@dataclass
class Reading:
    sensor: str
    celsius: float
    tags: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Report:
    first: Reading
    others: dict[str, Reading]


class Pulling(torvyn.Source):
    def __init__(self, items: Sequence[object]) -> None:
        super().__init__()
        self.items = [*items]

    def pull(self) -> object:
        return self.items.pop(0) if self.items else None


class PullingBatches(Pulling):
    def pull_batch(self, most: int) -> object:
        items, self.items = self.items[:most], self.items[most:]
        return items or None


class Listing(torvyn.Processor):
    def process(self, element: torvyn.Element) -> object:
        return [DICT, None, "text", Reading("a", 1.0)]


class InBatches(torvyn.Processor):
    def process_batch(self, elements: torvyn.Batch) -> object:
        return [[DICT, element.text] for element in elements]


class Ending(torvyn.Aggregator):
    def ingest(self, element: torvyn.Element) -> object:
        return DICT if element.text == "now" else None

    def flush(self) -> object:
        return [Reading("end", 0.0)]


class Replacing(torvyn.Filter):
    def evaluate(self, element: torvyn.Element) -> torvyn.Verdict:
        return torvyn.Verdict.replace(DICT)  # type: ignore[arg-type]


async def asynchronous(element: torvyn.Element) -> object:
    await asyncio.sleep(0)
    return DICT


async def generated(stream: AsyncIterator[torvyn.Element]) -> AsyncIterator[object]:
    async for _ in stream:
        yield DICT


def in_thread(stream: Iterator[torvyn.Element]) -> Iterator[object]:
    for _ in stream:
        yield DICT


@pytest.mark.parametrize(
    "stages",
    [
        ([DICT],),
        (Pulling([DICT]),),
        (PullingBatches([DICT]),),
        (["x"], lambda element: DICT),
        (["x"], lambda element: iter([DICT])),
        (["x"], lambda element: torvyn.Output(DICT)),
        (["now"], Ending(), torvyn.filter(lambda element: "kiln" in element.text)),
        (["x"], Replacing()),
        (["x"], asynchronous),
        (["x"], generated),
        (["x"], in_thread),
    ],
)
def test_a_dict_is_json_wherever_it_is_sent(stages: tuple[object, ...]) -> None:
    (element,) = torvyn.Flow(*stages)  # type: ignore[arg-type]

    assert (element.text, element.content_type) == (TEXT, "application/json")
    assert element.json() == DICT


@pytest.mark.parametrize("variant", [None, "thread", "async"])
def test_a_list_has_elements_of_all_kinds(variant: str | None) -> None:
    run = run_flow(["x"], Listing(), variant=variant)

    assert run.texts == [TEXT, "text", '{"sensor":"a","celsius":1.0,"tags":[]}']


def test_a_batch_method_may_return_dicts() -> None:
    assert run_flow(["x", "y"], InBatches()).texts == [TEXT, "x", TEXT, "y"]


def test_a_flow_is_fed_with_dicts() -> None:
    flow = torvyn.Flow(lambda element: element.json()["celsius"] and element)

    assert [element.json() for element in flow.feed(DICT)] == [DICT]


def test_a_dataclass_is_json_with_what_is_inside_of_it() -> None:
    report = Report(Reading("a", 1.0), {"b": Reading("b", 2.0, ["hot"])})
    (element,) = torvyn.Flow([report], lambda element: element)

    assert element.json() == {
        "first": {"sensor": "a", "celsius": 1.0, "tags": []},
        "others": {"b": {"sensor": "b", "celsius": 2.0, "tags": ["hot"]}},
    }


def test_an_output_keeps_its_own_content_type_and_attributes() -> None:
    output = torvyn.Output(DICT, content_type="application/geo+json", attributes={"a": 1})
    (element,) = torvyn.Flow([output], lambda element: element)

    assert (element.content_type, element.attributes["a"]) == ("application/geo+json", 1)


@pytest.mark.parametrize("kind", [torvyn.Element, PureElement])
def test_an_element_of_a_test_takes_and_reads_json(kind: type[torvyn.Element]) -> None:
    element = kind(DICT)

    assert (element.text, element.content_type) == (TEXT, "application/json")
    assert kind("[1, 2]").json() == [1, 2]
    assert kind(b'{"a": 1}').json() == {"a": 1}


@pytest.mark.parametrize("kind", [torvyn.Element, PureElement])
def test_a_payload_that_is_not_json_is_invalid_input(kind: type[torvyn.Element]) -> None:
    with pytest.raises(torvyn.InvalidInput, match="the payload is not JSON"):
        kind("a, b").json()


@pytest.mark.parametrize("inner", [{1, 2}, math.nan, object()])
def test_what_json_has_no_form_for_is_the_components_error(inner: object) -> None:
    with pytest.raises(ContractError) as caught:
        [*torvyn.Flow(["x"], lambda element: {"inner": inner})]

    assert caught.value.code == "contract.wrong-result"
    assert "a dict cannot be sent as JSON" in str(caught.value)


@pytest.mark.parametrize("wrong", [torvyn.Verdict.DROP, torvyn.End("stop"), {1}, Reading, 5])
def test_other_results_are_wrong_as_before(wrong: object) -> None:
    with pytest.raises(ContractError, match="returned"):
        [*torvyn.Flow(["x"], lambda element: wrong)]
