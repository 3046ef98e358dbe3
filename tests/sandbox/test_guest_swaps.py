"""A sandboxed component is exchanged while its flow runs."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import torvyn
from torvyn._sandbox.build import build
from torvyn._sandbox.component import guest_class
from torvyn._sandbox.project import GuestProject

COUNTING = Path(__file__).parent / "c" / "counting"

pytestmark = pytest.mark.timeout(180)


@pytest.fixture(scope="module")
def counting(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The class of guests that append the number of elements that they have seen."""
    folder = tmp_path_factory.mktemp("guests") / "counting"
    shutil.copytree(COUNTING, folder)
    path = build(GuestProject("counting", folder, "c")).path
    return guest_class(path, "counting", folder)


def texts(flow: torvyn.Flow, *fed: str) -> list[str]:
    return [element.text for element in flow.feed(list(fed))]


def test_a_guest_hands_its_state_to_the_next_instance(counting: Any) -> None:
    flow = torvyn.Flow().add("count", counting())
    read = texts(flow, "a", "b")
    report = flow.swap("count", counting())

    assert read + texts(flow, "c") == ["a1", "b2", "c3"]
    assert report.state == "restored"


def test_a_guest_takes_its_node_back_from_a_component_that_fails(counting: Any) -> None:
    class Broken(torvyn.Processor):
        def process(self, element: torvyn.Element) -> str:
            raise ValueError("no")

        def snapshot(self) -> bytes:
            return self.state

        def restore(self, state: bytes) -> None:
            self.state = state

    flow = torvyn.Flow().add("first", torvyn.processor(lambda e: e.text)).add("count", counting())
    flow.connect("first", "count")
    read = texts(flow, "a", "b")
    flow.swap("count", Broken())

    assert read + texts(flow, "c", "d") == ["a1", "b2", "c3", "d4"]
    assert flow.swaps[-1].is_return
