"""Which methods a component has: its own ones, not those that its role has in their place."""

from __future__ import annotations

from typing import Any

import pytest

import torvyn
from torvyn._contract.inspection import set_attribute
from torvyn._contract.roles import AnyComponent, batch_method_of, defines_method


class Single(torvyn.Processor):
    def process(self, element: torvyn.Element) -> None: ...


class Batches(torvyn.Processor):
    def process_batch(self, elements: Any) -> None: ...


class SingleAgain(Batches):
    def process(self, element: torvyn.Element) -> None: ...


def with_function() -> torvyn.Processor:
    component = torvyn.Processor()
    component.process = lambda element: None  # type: ignore[method-assign]
    return component


@pytest.mark.parametrize(
    ("component", "has_single", "batch_method"),
    [
        (torvyn.Processor, False, None),
        (Single, True, None),
        (Batches, False, "process_batch"),
        (SingleAgain, True, None),
        (with_function(), True, None),
    ],
)
def test_a_method_counts_where_the_component_defines_it(
    component: AnyComponent, has_single: bool, batch_method: str | None
) -> None:
    assert defines_method(component, "processor", "process") is has_single
    assert batch_method_of(component, "processor") == batch_method


def test_an_attribute_is_set_on_a_component_that_refuses_to_be_changed() -> None:
    class Frozen(torvyn.Sink):
        def __setattr__(self, name: str, value: object) -> None:
            raise TypeError("frozen")

        def __init__(self) -> None: ...

    component = Frozen()
    set_attribute(component, "_node", "node")

    assert component._node == "node"
