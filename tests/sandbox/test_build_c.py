"""C guests: builds, up-to-date builds, descriptions, and every build error."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from click.testing import CliRunner

from torvyn._cli.app import group
from torvyn._cli.templates.project_template import TEMPLATES
from torvyn._native import WasmTools
from torvyn._sandbox.build import build
from torvyn._sandbox.project import GuestProject
from torvyn.errors import TorvynError

SOURCES = Path(__file__).parent / "c"
PAGE_BYTES = 65536

pytestmark = pytest.mark.timeout(180)

Write = Callable[..., GuestProject]


@pytest.fixture
def own_cache() -> None:
    """The compiler's cache is shared: without it the C library is compiled for every test."""


@pytest.fixture
def copy(tmp_path: Path) -> Callable[[str], GuestProject]:
    """A guest of the folder `c`, in the test's own folder."""

    def make(name: str) -> GuestProject:
        return GuestProject(name, Path(shutil.copytree(SOURCES / name, tmp_path / name)), "c")

    return make


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """A guest with this text."""

    def make(text: str) -> GuestProject:
        (tmp_path / "component.c").write_text(text)
        return GuestProject("mine", tmp_path, "c")

    return make


def test_the_compiler_keeps_its_files_elsewhere_if_the_users_cache_cannot_be_written(
    write: Write, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def compiler(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        """The real one compiles the C library there for minutes."""
        return subprocess.CompletedProcess(command, 1, "", options["env"]["ZIG_GLOBAL_CACHE_DIR"])

    monkeypatch.delenv("ZIG_GLOBAL_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/none")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("torvyn._sandbox.c_guest.subprocess", mock.Mock(run=compiler))

    assert str(tmp_path / "torvyn-zig-") in complaint(write("int x;")).message
    (folder,) = tmp_path.glob("torvyn-zig-*")
    assert folder.stat().st_mode & 0o777 == 0o700


def complaint(guest: GuestProject) -> TorvynError:
    with pytest.raises(TorvynError) as caught:
        build(guest)
    assert not guest.target.exists()
    return caught.value


@pytest.mark.parametrize(
    ("name", "world"),
    [
        ("shout", "managed-transform"),
        ("by-length", "content-router"),
        ("careful", "content-guard"),
        ("now-and-then", "polled-data-source"),
        ("with-printf", "data-sink"),
        ("failing", "content-filter"),
        ("two-at-once", "stream-aggregator"),
    ],
)
def test_a_guest_is_a_component_of_its_roles_world(
    copy: Callable[[str], GuestProject], name: str, world: str
) -> None:
    built = build(copy(name))

    found = WasmTools.describe(built.path.read_bytes())
    assert built.world == found["world"] == world
    assert built.size_bytes == found["size_bytes"]


def test_a_guest_takes_little_memory_and_imports_only_what_it_uses(
    copy: Callable[[str], GuestProject],
) -> None:
    found = WasmTools.describe(build(copy("by-length")).path.read_bytes())

    assert found["memory_bytes"] == 2 * PAGE_BYTES  # 64 KiB of stack, and the arena
    assert found["imports"] == [("torvyn:streaming/types@0.1.0", ["[method]buffer.size"])]


def test_a_guest_says_its_unit_and_its_ports(copy: Callable[[str], GuestProject]) -> None:
    assert WasmTools.notes(build(copy("shout")).path.read_bytes()) == {"unit": "shouts"}
    assert WasmTools.notes(build(copy("by-length")).path.read_bytes()) == {"ports": "a,b"}


def test_no_path_of_this_machine_is_in_a_component(copy: Callable[[str], GuestProject]) -> None:
    guest = copy("shout")

    assert str(guest.folder).encode() not in build(guest).path.read_bytes()


def test_a_build_is_up_to_date_until_a_source_changes(copy: Callable[[str], GuestProject]) -> None:
    guest = copy("shout")
    assert build(guest).was_built
    assert not build(guest).was_built
    assert build(guest, force=True).was_built

    header = guest.folder / "letters.h"
    header.write_text(header.read_text() + "\n")

    assert build(guest).was_built


def test_a_component_that_was_lost_is_built_again(copy: Callable[[str], GuestProject]) -> None:
    guest = copy("by-length")
    build(guest).path.unlink()

    assert build(guest).was_built


def test_an_error_of_the_compiler_is_shown_at_its_place(write: Write) -> None:
    wrong = '#define TORVYN_SINK\n#include <torvyn.h>\nint a = "x" * 2;\nint b = c;\n'

    found = complaint(write(wrong))

    assert [d.code for d in found.diagnostics] == ["sandbox.compile-failed"] * 2
    first, second = (diagnostic.location for diagnostic in found.diagnostics)
    assert first is not None
    assert second is not None
    assert first.file is not None
    assert first.file.endswith("component.c")
    assert (first.line, second.line) == (3, 4)


def test_a_missing_function_of_the_role_is_named(write: Write) -> None:
    found = complaint(write("#define TORVYN_FILTER\n#include <torvyn.h>\n"))

    assert found.code == "sandbox.compile-failed"
    assert "`torvyn_evaluate`" in found.message


def test_a_file_without_a_role_is_told_the_roles(write: Write) -> None:
    found = complaint(write("#include <torvyn.h>\n"))

    assert found.code == "sandbox.no-role"
    assert "`TORVYN_FILTER`" in str(found.hint)


def test_a_filter_that_emits_is_told_that_it_cannot(write: Write) -> None:
    text = (
        "#define TORVYN_FILTER\n#include <torvyn.h>\n"
        'bool torvyn_evaluate(const torvyn_element *e) { torvyn_emit("x", 1); return !e; }\n'
    )

    found = complaint(write(text))

    assert found.code == "sandbox.unfit"
    assert found.hint == "a filter cannot emit elements"


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_template_in_c_prints_what_the_one_in_python_does(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for arguments in (["init", "--name", "made", "--template", name, "--language", "c"], ["build"]):
        done = CliRunner().invoke(group, arguments, standalone_mode=False)
        assert done.return_value == 0, done.output

    done = CliRunner().invoke(group, ["run", "-q"], standalone_mode=False)

    assert (done.return_value, done.output) == (0, TEMPLATES[name].output)
