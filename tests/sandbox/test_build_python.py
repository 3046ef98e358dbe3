"""Python guests: what is read from their source, build errors, and one real build."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from torvyn._native import WasmTools
from torvyn._sandbox.build import build
from torvyn._sandbox.project import GuestProject
from torvyn._sandbox.python_guest import ClassSource, imported_modules, read_class
from torvyn.errors import TorvynError

ROUTER = """
import torvyn

class Base(torvyn.Router):
    unit = "words"

class ByLength(Base):
    ports = ("short", "long")

    def route(self, element):
        import base64  # late, as people do
        return ["short" if len(base64.b64encode(element.data)) < 8 else "long"]
"""

Write = Callable[..., GuestProject]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def make(text: str, entry: str | None = None) -> GuestProject:
        (tmp_path / "component.py").write_text(text)
        return GuestProject("mine", tmp_path, "python", entry)

    return make


def build_error(guest: GuestProject) -> TorvynError:
    with pytest.raises(TorvynError) as caught:
        read_class(guest)
    return caught.value


def test_a_class_is_found_with_its_role_its_ports_and_an_inherited_unit(write: Write) -> None:
    found = read_class(write(ROUTER, "component:ByLength"))

    assert found == ClassSource(
        "component", "ByLength", "router", "words", ("short", "long"), "none"
    )


def test_reading_a_class_runs_nothing_of_it(write: Write) -> None:
    text = "import torvyn\nraise SystemExit\nclass A(torvyn.Sink):\n    unit = 'lines'\n"
    text += "    def push(self, element): ...\n"

    assert read_class(write(text)).unit == "lines"


def test_several_classes_need_an_entry(write: Write) -> None:
    error = build_error(write(ROUTER))

    assert error.code == "sandbox.no-role"
    assert "2 classes have a role: Base, ByLength" in error.message


def test_a_file_without_a_role_is_refused(write: Write) -> None:
    assert build_error(write("class A: pass\n")).code == "sandbox.no-role"


def test_a_syntax_error_is_shown_at_its_place(write: Write) -> None:
    error = build_error(write("import torvyn\ndef (\n"))

    assert error.code == "sandbox.compile-failed"
    assert error.location is not None
    assert error.location.line == 2


@pytest.mark.parametrize(
    "method",
    [
        "class A(torvyn.Filter):\n    async def evaluate(self, element): ...\n",
        "class A(torvyn.Sink):\n    async def complete(self, end): ...\n",
    ],
)
def test_a_method_that_a_sandbox_cannot_call_is_refused(write: Write, method: str) -> None:
    error = build_error(write("import torvyn\n" + method))

    assert error.code == "sandbox.method-unsupported"
    assert error.location is not None
    assert error.location.line == 3


def test_an_inherited_method_that_a_sandbox_cannot_call_is_refused(write: Write) -> None:
    text = "class A(torvyn.Sink):\n    async def push(self, element): ...\nclass B(A): ...\n"

    error = build_error(write("import torvyn\n" + text, "component:B"))

    assert error.message == "`A.push` is async; methods in the sandbox must be sync"


def test_imports_inside_functions_are_seen(write: Write) -> None:
    guest = write(ROUTER)

    assert imported_modules([guest.folder / "component.py"]) == {"torvyn", "base64"}


@pytest.mark.timeout(300)
def test_the_same_file_becomes_a_component(write: Write) -> None:
    guest = write(ROUTER, "component:ByLength")

    component = build(guest).path.read_bytes()

    assert WasmTools.describe(component)["world"] == "content-router"
    assert WasmTools.notes(component) == {"config": "none", "ports": "short,long", "unit": "words"}
    assert not build(guest).was_built


def test_a_class_without_its_roles_method_is_told_before_the_build(write: Write) -> None:
    guest = write("class A(torvyn.Filter):\n    def evaluat(self, element): ...\n")

    with pytest.raises(TorvynError, match="`A` is a filter without a method `evaluate`"):
        read_class(guest)


@pytest.mark.parametrize(
    "source",
    [
        "class A(torvyn.Filter, Mixin): ...",
        "class A(torvyn.Source):\n    def __iter__(self): ...",
        "class A(torvyn.Filter):\n    evaluate = judge",
        "class B(torvyn.Filter):\n    def evaluate(self, element): ...\nclass A(B): ...",
    ],
)
def test_a_class_may_have_its_roles_method_from_elsewhere(write: Write, source: str) -> None:
    assert read_class(write(source, "component.py:A")).name == "A"
