"""The error of a component shows where in the user's code it was raised."""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

import torvyn
from torvyn._flow.failures import source_line
from torvyn.components import JsonMap

HERE = Path(__file__).name


class Adds(torvyn.Processor):
    def process(self, element: torvyn.Element) -> str:
        return element.text + 1  # type: ignore[operator]


class Parses(torvyn.Processor):
    def process(self, element: torvyn.Element) -> str:
        return str(json.loads(element.text))


class Begins(torvyn.Processor):
    def init(self, config: str) -> None:
        raise ValueError("no")

    def process(self, element: torvyn.Element) -> str:
        return "x"


def error_of(component: torvyn.Processor) -> torvyn.TorvynError:
    with pytest.raises(torvyn.TorvynError) as caught:
        for _ in torvyn.Flow(["x"], component):
            pass
    return caught.value


def line_of(method: Callable[..., object]) -> int:
    return method.__code__.co_firstlineno + 1  # type: ignore[attr-defined, no-any-return]


@pytest.mark.parametrize(
    ("component", "method"),
    [(Adds(), Adds.process), (Parses(), Parses.process), (Begins(), Begins.init)],
)
def test_an_error_has_the_line_of_the_component(
    component: torvyn.Processor, method: Callable[..., object]
) -> None:
    error = error_of(component)

    assert error.location is not None
    assert str(error.location.file).endswith(HERE)
    assert error.location.line == line_of(method)
    assert error.location.path == "flow.main.nodes.processor"


def test_a_traceback_shows_file_line_and_component_after_the_message() -> None:
    text = "".join(traceback.format_exception(error_of(Adds())))

    last = text.splitlines()[-1]
    assert last.startswith("at ")
    assert last.endswith(f"{HERE}:{line_of(Adds.process)}, in `Adds.process`")


def test_iterating_shows_one_frame_of_torvyn_at_most() -> None:
    error = error_of(Adds())

    files = [Path(frame.filename) for frame in traceback.extract_tb(error.__traceback__)]
    assert [file.name for file in files] == [HERE, "flow.py"]


def test_an_error_inside_of_a_built_in_component_has_the_place_of_its_node() -> None:
    error = error_of(JsonMap({"pick": ["a"]}))

    assert str(error.location) == "flow.main.nodes.processor"


def test_an_exception_that_was_never_raised_has_no_line() -> None:
    assert source_line(ValueError()) is None
