"""`torvyn init`: every template creates a project that checks, runs and passes its own test."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from transcript import Cli

from torvyn._cli.templates.project_template import TEMPLATES


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_template_makes_a_project_that_checks_and_runs(
    cli: Cli, tmp_path: Path, name: str
) -> None:
    assert cli("init", "made", "--template", name, cwd=tmp_path).code == 0

    assert cli("check", cwd=tmp_path / "made").code == 0
    done = cli("run", "-q", cwd=tmp_path / "made")
    assert (done.code, done.out, done.err) == (0, TEMPLATES[name].output, "")


def test_the_tests_of_all_templates_pass(cli: Cli, tmp_path: Path) -> None:
    for name in TEMPLATES:
        cli("init", name, "--template", name, cwd=tmp_path)

    command = [sys.executable, "-m", "pytest", "-q", "--import-mode=importlib", "."]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert f"{len(TEMPLATES)} passed" in done.stdout


def test_a_project_with_a_language_is_sandboxed(cli: Cli, tmp_path: Path) -> None:
    done = cli("init", "made", "--language", "python", cwd=tmp_path)

    assert done.err == "\nCreated `made`. Run it: cd made && torvyn build && torvyn run\n"
    manifest = (tmp_path / "made" / "Torvyn.toml").read_text()
    assert manifest.count('isolation = "wasm"') == manifest.count("[[component]]")
    assert '[security.grants.numbered]\ncapabilities = ["stdio:stdout"]' in manifest
    assert "pip install componentize-py" in (tmp_path / "made" / "README.md").read_text()


def test_a_project_in_the_current_folder_has_its_name(cli: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "here"
    folder.mkdir()

    assert cli("init", cwd=folder).err == "\nCreated `here`. Run it: torvyn run\n"
    assert 'name = "here"' in (folder / "Torvyn.toml").read_text()


def test_nothing_is_written_if_one_file_exists(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("mine")

    done = cli("init", "--name", "x", cwd=tmp_path)

    assert done.code == 2
    assert "error[cli.file-exists]" in done.err
    assert [path.name for path in tmp_path.iterdir()] == ["README.md"]
    assert (tmp_path / "README.md").read_text() == "mine"


def test_a_folder_that_cannot_be_created_is_an_error(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    done = cli("init", "file/project", cwd=tmp_path)

    assert done.code == 3
    assert done.err.startswith("error[cli.file-unwritable]: cannot write file/project/")
