"""Guests with the interfaces of 0.3.0: batches and state, in C and in Python."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import torvyn
from torvyn._observe.metrics import flow_metrics
from torvyn._sandbox.build import build
from torvyn._sandbox.component import GuestLimits, guest_class
from torvyn._sandbox.project import GuestProject
from torvyn.errors import InvalidInput
from torvyn.testing import CollectingSink, ScriptedSource, check_account

SOURCES = Path(__file__).parent / "c"
TEXTS = [f"t{number}" for number in range(300)]
NewGuest = Callable[[str], Any]

pytestmark = pytest.mark.timeout(180)

PYTHON = """
import torvyn

class Batched(torvyn.Processor):
    def init(self, config):
        self.count = 0

    def process_batch(self, elements):
        self.count += len(elements)
        results = [text.upper() for text in elements.texts]
        return [
            torvyn.InvalidInput(text) if text.startswith("X")
            else torvyn.Output(text, attributes={"size": len(elements), **element.attributes})
            for text, element in zip(results, elements)
        ]

    def snapshot(self):
        return {"count": self.count}

    def restore(self, state):
        self.count = state["count"]
"""

MIXED = """
import torvyn

class Mixed(torvyn.Processor):
    def process(self, element):
        text = element.text
        if text == "none":
            return None
        if text == "bad":
            raise torvyn.InvalidInput(text)
        if text == "half":
            return "\\ud800"
        return (each for each in (text, "again")) if text == "two" else text.upper()
"""


@pytest.fixture
def own_cache() -> None:
    """The compiler's cache is shared: without it the C library is compiled for every test."""


@pytest.fixture
def guest(tmp_path: Path) -> NewGuest:
    def make(name: str, language: str = "c") -> Any:
        folder = tmp_path / name
        if language == "c":
            shutil.copytree(SOURCES / name, folder)
        else:
            folder.mkdir()
            (folder / "component.py").write_text(PYTHON)
        made: Any = guest_class(build(GuestProject(name, folder, language)).path, name, tmp_path)()
        made.set_limits(GuestLimits(name, max_memory_bytes=64 << 20))
        return made

    return make


@pytest.fixture(scope="module")
def mixed_class(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Built once: it takes much longer than a test."""
    folder = tmp_path_factory.mktemp("mixed")
    (folder / "component.py").write_text(MIXED)
    return guest_class(build(GuestProject("mixed", folder, "python")).path, "mixed", folder)


@pytest.fixture
def mixed(mixed_class: Any) -> Any:
    made = mixed_class()
    made.set_limits(GuestLimits("mixed", max_memory_bytes=64 << 20))
    return made


def run(component: Any, texts: list[Any], **policy: Any) -> tuple[torvyn.Flow, CollectingSink]:
    flow, sink = torvyn.Flow(), CollectingSink()
    flow.add("source", ScriptedSource(texts))
    flow.add("guest", component, **policy)
    flow.add("sink", sink)
    flow.connect("source", "guest").connect("guest", "sink").run()
    check_account(flow.statistics)
    return flow, sink


def test_a_c_guest_takes_batches_in_order_and_every_copy_is_counted(guest: NewGuest) -> None:
    flow, sink = run(guest("counting"), TEXTS)

    assert sink.texts == [f"{text}{at}" for at, text in enumerate(TEXTS, 1)]
    copies = flow.statistics.nodes["guest"].copies
    assert (copies["host-to-guest"], copies["guest-to-host"]) == (len(TEXTS), len(TEXTS))
    assert sum(copies.values()) == 2 * len(TEXTS)


def test_an_element_that_fails_inside_a_batch_fails_alone_with_its_own_message(
    guest: NewGuest, caplog: pytest.LogCaptureFixture
) -> None:
    flow, sink = run(guest("picky"), ["a", "xb", "c", "xd", "e"] * 20, on_error="skip")

    assert sink.texts == ["a", "c", "e"] * 20
    assert flow.statistics.nodes["guest"].failed == 40
    assert "rejected b" in caplog.text


def test_elements_of_several_content_types_keep_their_types(guest: NewGuest) -> None:
    texts = [torvyn.Output(f"{at}", content_type=f"text/{at % 3}") for at in range(60)]

    _, sink = run(guest("counting"), texts)

    assert len(sink.texts) == 60


def test_a_guest_continues_with_the_state_of_another_one(guest: NewGuest) -> None:
    first = guest("counting")
    first.init("")
    first.restore((41).to_bytes(8, "little"))
    state = first.snapshot()
    second = type(first)()
    second.init("")
    second.restore(state)

    assert second.snapshot() == (41).to_bytes(8, "little")
    with pytest.raises(InvalidInput, match="this is not a count"):
        second.restore(b"?")
    first.teardown()
    second.teardown()


def test_a_guest_without_state_has_no_snapshot(guest: NewGuest) -> None:
    assert not hasattr(guest("picky"), "snapshot")


@pytest.mark.full
def test_a_python_guest_gets_batches_with_attributes_and_keeps_its_state(guest: NewGuest) -> None:
    component = guest("batched", "python")
    flow = torvyn.Flow()
    flow.add("guest", component, on_error="skip")
    texts = [*TEXTS[:40], "xy"]

    got = flow.feed([torvyn.Output(text, attributes={"x": 1}) for text in texts])
    got += flow.finish()

    assert [element.text for element in got] == [text.upper() for text in TEXTS[:40]]
    assert max(element.attributes["size"] for element in got) > 1
    assert {element.attributes["x"] for element in got} == {1}
    component.init("")
    component.restore(b'j{"count": 7}')
    assert component.snapshot() == b'j{"count": 7}'
    component.teardown()


@pytest.mark.full
@pytest.mark.parametrize(
    ("texts", "expected", "failed"),
    [
        (["a", "é", "c"], ["A", "É", "C"], 0),
        (["a", "none", "c", "two", "bad", "d"], ["A", "C", "two", "again", "D"], 1),
        (["a", "half", "c"], ["A", "C"], 1),
        (["bad", "a", "two", "bad"], ["A", "two", "again"], 2),
    ],
    ids=["texts", "mixed", "surrogate", "failures"],
)
def test_every_result_of_a_python_guest_belongs_to_its_element(
    mixed: Any, texts: list[str], expected: list[str], failed: int
) -> None:
    flow, sink = run(mixed, texts * 20, on_error="skip")

    assert sink.texts == expected * 20
    assert flow.statistics.nodes["guest"].failed == failed * 20


def test_the_memory_of_a_guest_is_in_the_statistics_and_the_metrics(guest: NewGuest) -> None:
    flow, _ = run(guest("counting"), TEXTS)

    node = flow.statistics.nodes["guest"]
    assert node.guest_memory_bytes is not None
    # WebAssembly has pages of 64 KiB.
    assert 64 << 10 <= node.guest_memory_bytes <= node.max_memory_bytes
    assert node.guest_memory_bytes % (64 << 10) == 0
    assert flow.statistics.nodes["sink"].guest_memory_bytes is None
    (metric,) = (
        found
        for found in flow_metrics(flow.statistics)
        if found.name == "component.guest_memory_bytes"
    )
    assert [point.value for point in metric.points] == [node.guest_memory_bytes]


def test_a_guest_that_is_gone_uses_no_memory(guest: NewGuest) -> None:
    made = guest("counting")
    made.init("")
    running = made._guest
    assert made.health.memory_bytes == running.memory_bytes > 0

    made.teardown()

    assert running.memory_bytes == 0
