"""`torvyn init --language rust`: its projects build and run, as `components-in-rust.md` says."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from scale import sample
from transcript import Cli

import rust_toolchain
from toolchains import needs_rust
from torvyn._cli.templates.project_template import TEMPLATES

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "components-in-rust.md"
BLOCKS = dict(re.findall(r"^```(rust|toml|text)\n(.*?)^```$", PAGE.read_text(), re.M | re.S)[:3])
"""The first block of each language."""

NAMES = sample(["filter"], full=[*TEMPLATES])


@pytest.fixture(autouse=True)
def toolchain(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name, value in (rust_toolchain.variables() or {}).items():
        monkeypatch.setenv(name, value)


def made(cli: Cli, folder: Path, template: str) -> Path:
    done = cli("init", "made", "--template", template, "--language", "rust", cwd=folder)
    assert done.err == "\nCreated `made`. Run it: cd made && torvyn build && torvyn run\n"
    return folder / "made"


def test_the_page_shows_the_files_of_the_template(cli: Cli, tmp_path: Path) -> None:
    crate = made(cli, tmp_path, "filter") / "components" / "keep-short"

    assert (crate / "src" / "lib.rs").read_text() == BLOCKS["rust"]
    assert (crate / "Cargo.toml").read_text() == BLOCKS["toml"]


def test_a_project_says_what_building_it_needs(cli: Cli, tmp_path: Path) -> None:
    readme = (made(cli, tmp_path, "pipeline") / "README.md").read_text()

    assert "needs Rust and `rustup target add wasm32-wasip1`" in readme
    assert (tmp_path / "made" / ".gitignore").read_text() == "build/\ntarget/\n"


def test_without_the_target_the_build_says_what_to_install(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler = tmp_path / "rustc"
    compiler.write_text("#!/bin/sh\nexit 1\n")
    compiler.chmod(0o755)
    cargo = shutil.copy(compiler, tmp_path / "cargo")
    monkeypatch.setenv("RUSTC", str(compiler))
    monkeypatch.setenv("CARGO", str(cargo))

    done = cli("build", "-q", cwd=made(cli, tmp_path, "filter"))

    assert (done.code, done.err) == (3, BLOCKS["text"])


@needs_rust
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", NAMES)
def test_a_project_builds_and_runs(name: str, cli: Cli, tmp_path: Path) -> None:
    folder = made(cli, tmp_path, name)
    # The versions of the dependencies that are there.
    shutil.copy(rust_toolchain.EXAMPLE / "Cargo.lock", folder)
    for crate in folder.glob("components/*/Cargo.toml"):
        # Its own name, because the folder where cargo builds is shared.
        text = crate.read_text()
        crate.write_text(text.replace(crate.parent.name, f"{name}-{crate.parent.name}", 1))

    built = cli("build", "-q", cwd=folder)
    done = cli("run", "-q", cwd=folder)

    assert built.code == 0, built.err
    assert (done.code, done.out, done.err) == (0, TEMPLATES[name].output, "")
