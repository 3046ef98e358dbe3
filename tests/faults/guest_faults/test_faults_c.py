"""Guests in C that go wrong: the error names component, node, element and the functions in C."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import torvyn
from torvyn._sandbox.build import build
from torvyn._sandbox.component import GuestComponent, guest_class
from torvyn._sandbox.project import GuestProject

pytestmark = pytest.mark.timeout(180)

Flows = Callable[..., torvyn.Flow]

ABORT = """\
error[component.internal]: node `count` (component `faulty`) failed in `process` on element 1: \
`process` trapped: wasm `unreachable` instruction executed
guest backtrace:
  0: abort
  1: go_wrong
  2: torvyn__process
  at flow.main.nodes.count"""

LOOP = """\
error[component.deadline-exceeded]: node `count` (component `faulty`) failed in `process` on \
element 1: `process` took longer than 0.1 s and was stopped
guest backtrace:
  0: go_wrong
  1: torvyn__process
  at flow.main.nodes.count"""


@pytest.fixture
def own_cache() -> None:
    """The compiler's cache is shared: without it the C library is compiled for every test."""


@pytest.fixture(scope="session")
def wasm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = Path(__file__).parents[1] / "c" / "faulty"
    folder = Path(shutil.copytree(source, tmp_path_factory.mktemp("c") / "faulty"))
    return build(GuestProject("faulty", folder, "c")).path


@pytest.fixture
def flow(wasm: Path, tmp_path: Path) -> Flows:
    def make(tokens: list[str], **options: str) -> torvyn.Flow:
        guest: GuestComponent = guest_class(wasm, "faulty", tmp_path / "own")()
        made = torvyn.Flow(**options).add("in", tokens)
        made.add("count", guest, call_timeout_s=0.1, max_memory_bytes=1 << 20)
        return made.connect("in", "count")

    return make


@pytest.mark.parametrize(("how", "text"), [("a", ABORT), ("l", LOOP)])
def test_the_error_reads_like_this(flow: Flows, how: str, text: str) -> None:
    with pytest.raises(torvyn.errors.ComponentError) as caught:
        list(flow(["x", how]))

    assert caught.value.render() == text


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("d", "integer divide by zero"),
        ("w", "out of bounds memory access"),
        ("r", "out of bounds memory access"),
    ],
    ids=["division", "wild pointer", "recursion"],
)
def test_a_mistake_in_c_is_a_trap_with_the_functions_name(
    flow: Flows, how: str, words: str
) -> None:
    with pytest.raises(torvyn.errors.Internal, match=words) as caught:
        list(flow([how]))

    assert ("0: deeper" if how == "r" else "0: go_wrong") in str(caught.value)


@pytest.mark.parametrize("how", "adrw")
def test_one_element_is_hit_and_the_count_begins_anew(flow: Flows, how: str) -> None:
    counting = flow(["x", "x", how, "x"], on_error="skip")

    texts = list(counting.text())
    guest = counting.statistics.nodes["count"].guest
    assert guest is not None
    # In a batch, the trap also takes the count from before the batch, and happens once more when
    # the elements are given to the new instance one by one.
    assert texts in (["x", "xx", "x"], ["x", "x", "x"])
    assert guest.traps == guest.state_lost == guest.replaced
    assert guest.traps in (1, 2)


@pytest.mark.promise("edge.component-budgets")
def test_a_limit_is_named_in_the_error(wasm: Path, tmp_path: Path) -> None:
    guest = guest_class(wasm, "faulty", tmp_path / "own")()
    small = torvyn.Flow(["x"]).add("count", guest, max_memory_bytes=64 << 10)

    with pytest.raises(torvyn.errors.FlowError) as caught:
        list(small.connect("source", "count"))

    text = caught.value.message
    assert text.startswith("node `count` (component `faulty`) failed in `init`: `instantiate`")
    assert "bytes of memory (the limit is 65536)" in text
