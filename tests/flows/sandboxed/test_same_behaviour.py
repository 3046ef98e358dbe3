"""A Python component does the same in this process and in the sandbox."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import torvyn
from torvyn._contract.roles import Component
from torvyn.testing._sandbox_variant import as_guest

pytestmark = pytest.mark.timeout(400)

TEXT = "text/plain; charset=utf-8"
BINARY = "application/octet-stream"


def in_process(component: Component) -> Component:
    return component


class PassesOnThenFlushes(torvyn.Processor):
    def process(self, element: torvyn.Element) -> Any:
        return element

    def flush(self) -> Any:
        return "end"


class PassesOnThenRepeats(torvyn.Processor):
    def init(self, config: str) -> None:
        self.last: Any = None

    def process(self, element: torvyn.Element) -> Any:
        self.last = element
        return element

    def flush(self) -> Any:
        return self.last


class ListWithNone(torvyn.Processor):
    def process(self, element: torvyn.Element) -> Any:
        return [None, element.text, None]

    def flush(self) -> Any:
        return (None, "end")


class GeneratorWithNone(torvyn.Processor):
    def process(self, element: torvyn.Element) -> Iterator[Any]:
        yield None
        yield element.text


class FlushWithNone(torvyn.Aggregator):
    def ingest(self, element: torvyn.Element) -> Any:
        return None

    def flush(self) -> Any:
        return ["first", None, "second"]


class EmptyTypeOfText(torvyn.Processor):
    def process(self, element: torvyn.Element) -> Any:
        return torvyn.Output(element.text, content_type="")


class EmptyTypeOfBytes(torvyn.Processor):
    def process(self, element: torvyn.Element) -> Any:
        return torvyn.Output(bytes(element.data), content_type="")


CASES: list[tuple[Callable[[], Component], list[tuple[str, int, str]]]] = [
    (PassesOnThenFlushes, [("a", 0, TEXT), ("b", 1, TEXT), ("end", 1, TEXT)]),
    (PassesOnThenRepeats, [("a", 0, TEXT), ("b", 1, TEXT), ("b", 1, TEXT)]),
    (ListWithNone, [("a", 0, TEXT), ("b", 1, TEXT), ("end", 1, TEXT)]),
    (GeneratorWithNone, [("a", 0, TEXT), ("b", 1, TEXT)]),
    (FlushWithNone, [("first", 0, TEXT), ("second", 1, TEXT)]),
    (EmptyTypeOfText, [("a", 0, TEXT), ("b", 1, TEXT)]),
    (EmptyTypeOfBytes, [("a", 0, BINARY), ("b", 1, BINARY)]),
]


@pytest.mark.parametrize("place", [in_process, as_guest])
@pytest.mark.parametrize(("make", "expected"), CASES)
def test_outputs_are_the_same_wherever_a_component_runs(
    make: Callable[[], Component],
    expected: list[tuple[str, int, str]],
    place: Callable[[Component], Component],
) -> None:
    flow = torvyn.Flow(["a", "b"], place(make()))

    found = list(flow)

    assert [(each.text, each.sequence, each.content_type) for each in found] == expected
    assert all(each.timestamp_ns for each in found)


def test_an_element_with_an_empty_content_type_has_that_of_its_data() -> None:
    assert torvyn.Element("a", content_type="").content_type == TEXT
    assert torvyn.Element(b"a", content_type="").content_type == BINARY
