"""The built-in WIT packages as files, and `torvyn check` of a project's own."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from torvyn._cli.app import group, run
from torvyn._link.project_linker import ProjectLinker
from torvyn.errors import UsageError

Project = Callable[..., Path]

CONTRACTS = Path(__file__).parents[2] / "wit"


def test_wit_that_resolves_is_fine(project: Project) -> None:
    file = project('component = "source.wasm"', 'component = "sink.wasm"')
    shutil.copytree(CONTRACTS, file.parent / "wit")

    assert ProjectLinker.open(file).check() == ()


def test_wit_that_does_not_resolve_is_reported_with_its_location(project: Project) -> None:
    file = project('component = "source.wasm"', 'component = "sink.wasm"')
    (file.parent / "wit").mkdir()
    (file.parent / "wit" / "own.wit").write_text("package mine:thing;\n\nworld w { import no; }\n")

    (found,) = ProjectLinker.open(file).check()

    assert found.code == "sandbox.wit-invalid"
    assert found.location is not None
    assert (found.location.line, found.location.column) == (3, 18)


def test_the_files_of_the_packages_are_those_of_the_repository(tmp_path: Path) -> None:
    done = CliRunner().invoke(group, ["schema", "--wit", str(tmp_path / "wit")])

    assert done.exit_code == 0
    readme = {Path("README.md")}
    assert files_of(tmp_path / "wit") == {
        path: text for path, text in files_of(CONTRACTS).items() if path not in readme
    }


def files_of(folder: Path) -> dict[Path, bytes]:
    return {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_packages_are_written_where_nothing_else_is(tmp_path: Path) -> None:
    folder = tmp_path / "wit"
    command = ["schema", "--wit", str(folder)]
    assert run(command) == run(command) == 0
    (folder / "0.2" / "worlds.wit").unlink()
    assert run(command) == 0
    before = files_of(folder)
    (folder / "own.wit").write_text("package mine:thing;\n")

    assert run(command) == UsageError.exit_code
    assert files_of(folder) == {**before, Path("own.wit"): b"package mine:thing;\n"}


def test_changed_packages_are_not_overwritten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "wit"
    run(["schema", "--wit", str(folder)])
    (folder / "worlds.wit").write_text("// mine\n")

    assert run(["schema", "--wit", str(folder)]) == UsageError.exit_code
    assert "already contains `worlds.wit`" in capsys.readouterr().err
    assert (folder / "worlds.wit").read_text() == "// mine\n"


def test_a_file_is_no_folder_for_packages(tmp_path: Path) -> None:
    (tmp_path / "wit").touch()

    assert run(["schema", "--wit", str(tmp_path / "wit")]) == UsageError.exit_code
