"""Guests in C in flows: verdicts, errors, large payloads, scratch memory that is given back."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import torvyn
from toolchains import needs_zig
from torvyn.contract import Component
from torvyn.errors import Fatal, Internal, InvalidInput
from torvyn.sandbox.build.build import build
from torvyn.sandbox.build.project import GuestProject
from torvyn.sandbox.component import GuestComponent, GuestLimits, guest_class

SOURCES = Path(__file__).parent / "c"
LARGE = "x" * 100_000

pytestmark = [needs_zig, pytest.mark.timeout(180)]

Part = Callable[[str], Component]


@pytest.fixture
def own_cache() -> None:
    """The compiler's cache is shared: without it the C library is compiled for every test."""


@pytest.fixture
def part(tmp_path: Path) -> Part:
    """A guest of the folder `c`, built, as a part of a flow with 1 MiB of memory."""

    def make(name: str) -> Component:
        folder = Path(shutil.copytree(SOURCES / name, tmp_path / name))
        made: GuestComponent = guest_class(
            build(GuestProject(name, folder, "c")).path, name, tmp_path
        )()
        made.set_limits(GuestLimits(name, max_memory_bytes=1 << 20))
        return made

    return make


def texts(*parts: object) -> list[str]:
    return [element.text for element in torvyn.Flow(*parts)]


def test_large_payloads_pass_again_and_again_in_little_memory(part: Part) -> None:
    assert texts([LARGE] * 50, part("shout")) == [LARGE.upper()] * 50


def test_what_is_not_emitted_is_dropped(part: Part) -> None:
    assert texts(["a", "", "b"], part("shout")) == ["A", "B"]


def test_a_guard_has_all_verdicts(part: Part) -> None:
    flow = torvyn.Flow(["ok", "h1", "red", "drop", "h2", "fine", "bad", "never"], part("careful"))

    assert [element.text for element in flow] == ["ok", "***", "h2", "fine"]
    assert flow.end is not None
    assert (flow.end.finish_reason, flow.end.reason) == ("content_filter", "a bad word")


def test_an_aggregator_flushes_many(part: Part) -> None:
    assert texts(["a", "bc"], part("two-at-once")) == ["a", "b", "c"]


def test_two_at_once_where_one_fits_is_an_error_of_the_component(part: Part) -> None:
    with pytest.raises(Internal, match="the call emitted more elements than it may"):
        texts(["abc"], part("two-at-once"))


@pytest.mark.parametrize(("number", "kind"), [("0", InvalidInput), ("2", Internal), ("4", Fatal)])
def test_a_guest_fails_with_the_kind_that_it_names(
    part: Part, number: str, kind: type[Exception]
) -> None:
    with pytest.raises(kind, match="as you wish"):
        texts([number], part("failing"))
