"""C guests in flows: verdicts, errors, large payloads, and scratch memory that is freed."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import torvyn
from torvyn._cli.templates.c_components import COMPONENTS
from torvyn._contract.roles import Component
from torvyn._sandbox.build import build
from torvyn._sandbox.component import GuestComponent, GuestLimits, guest_class
from torvyn._sandbox.project import GuestProject
from torvyn.errors import Fatal, Internal, InvalidInput

SOURCES = Path(__file__).parent / "c"
LARGE = "x" * 100_000

pytestmark = pytest.mark.timeout(180)

NewGuest = Callable[[str], Component]


@pytest.fixture
def own_cache() -> None:
    """The compiler's cache is shared: without it the C library is compiled for every test."""


@pytest.fixture
def c_guest(tmp_path: Path) -> NewGuest:
    """Builds a guest from the folder `c`, with 1 MiB of memory."""

    def make(name: str) -> Component:
        folder = Path(shutil.copytree(SOURCES / name, tmp_path / name))
        made: GuestComponent = guest_class(
            build(GuestProject(name, folder, "c")).path, name, tmp_path
        )()
        made.set_limits(GuestLimits(name, max_memory_bytes=1 << 20))
        return made

    return make


def texts(*components: object) -> list[str]:
    return [element.text for element in torvyn.Flow(*components)]


def test_large_payloads_pass_again_and_again_in_little_memory(c_guest: NewGuest) -> None:
    assert texts([LARGE] * 50, c_guest("shout")) == [LARGE.upper()] * 50


def test_what_is_not_emitted_is_dropped(c_guest: NewGuest) -> None:
    assert texts(["a", "", "b"], c_guest("shout")) == ["A", "B"]


def test_a_guard_has_all_verdicts(c_guest: NewGuest) -> None:
    flow = torvyn.Flow(
        ["ok", "h1", "red", "drop", "h2", "fine", "bad", "never"], c_guest("careful")
    )

    assert [element.text for element in flow] == ["ok", "***", "h2", "fine"]
    assert flow.end is not None
    assert (flow.end.finish_reason, flow.end.reason) == ("content_filter", "a bad word")


def test_an_aggregator_flushes_many(c_guest: NewGuest) -> None:
    assert texts(["a", "bc"], c_guest("two-at-once")) == ["a", "b", "c"]


def test_two_at_once_where_one_fits_is_an_error_of_the_component(c_guest: NewGuest) -> None:
    with pytest.raises(Internal, match="the call emitted more elements than it may"):
        texts(["abc"], c_guest("two-at-once"))


@pytest.mark.parametrize(("number", "kind"), [("0", InvalidInput), ("2", Internal), ("4", Fatal)])
def test_a_guest_fails_with_the_kind_that_it_names(
    c_guest: NewGuest, number: str, kind: type[Exception]
) -> None:
    with pytest.raises(kind, match="as you wish"):
        texts([number], c_guest("failing"))


def test_a_filter_of_a_template_does_not_start_with_a_config_that_it_cannot_read(
    tmp_path: Path,
) -> None:
    """A letter must not become a large limit that lets everything pass."""
    (tmp_path / "component.c").write_text(COMPONENTS["keep-short"])
    made = guest_class(build(GuestProject("keep-short", tmp_path, "c")).path, "short", tmp_path)

    def left(config: str) -> list[str]:
        flow = torvyn.Flow().add("source", torvyn.source(["a", "abc", "abcdefghijkl"]))
        flow.add("short", made(), config=config).connect("source", "short")
        return list(flow.text())

    assert (left("1"), left("12")) == (["a"], ["a", "abc", "abcdefghijkl"])
    for config in ("x", "1x", "-1", '{"limit": 3}'):
        with pytest.raises(torvyn.TorvynError, match=r"must be a number|takes text"):
            left(config)
