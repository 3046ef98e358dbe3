"""How a node is called: found from its component, or told and checked."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from flow_records import Drop, Keep, codes, numbers, plan

import torvyn
from torvyn._manifest.records import NodeRecord


class KeepAsync(torvyn.Filter):
    async def evaluate(self, element: torvyn.Element) -> bool:
        return True


class Blocking(Keep):
    run = "thread"


async def letters() -> AsyncIterator[str]:
    yield "a"


async def louder(stream: Any) -> AsyncIterator[str]:
    async for element in stream:
        yield element.text.upper()


def slower(stream: Any) -> Iterator[str]:
    for element in stream:
        yield element.text


class Pulled(torvyn.Source):
    async def pull(self) -> None:
        return None


@pytest.mark.parametrize(
    ("component", "run"),
    [
        (Keep(), "inline"),
        (KeepAsync(), "async"),
        (Blocking(), "thread"),
        (torvyn.filter(lambda element: True), "inline"),
        (torvyn.stream(louder), "async"),
        (torvyn.stream(slower), "thread"),
    ],
)
def test_the_run_mode_is_found_from_the_component(component: Any, run: str) -> None:
    nodes = {"a": numbers(), "b": component, "c": Drop()}

    assert plan(nodes, ["a > b", "b > c"]).node("b").run == run


@pytest.mark.parametrize(
    ("source", "run"),
    [
        (torvyn.source(["a"]), "inline"),
        (torvyn.source(letters), "async"),
        (torvyn.source(letters()), "async"),
        (Pulled(), "async"),
    ],
)
def test_the_run_mode_of_a_source_follows_its_iterator(source: Any, run: str) -> None:
    assert plan({"a": source, "b": Drop()}, ["a > b"]).node("a").run == run


@pytest.mark.parametrize(
    ("component", "run"),
    [
        (Keep(), "async"),
        (KeepAsync(), "inline"),
        (KeepAsync(), "thread"),
        (torvyn.stream(slower), "inline"),
        (Keep(), "threaded"),
    ],
)
def test_a_contradictory_run_mode_is_an_error(component: Any, run: str) -> None:
    nodes = {"a": numbers(), "b": NodeRecord("b", component, run=run), "c": Drop()}

    assert codes(nodes, ["a > b", "b > c"]) == ["link.bad-run"]
