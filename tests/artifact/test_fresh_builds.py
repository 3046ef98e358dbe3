"""Packs of two clean checkouts, each with freshly built components, are identical."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from projects import content

import rust_toolchain
from toolchains import needs_rust
from torvyn._artifact.layout import Layout
from torvyn._artifact.lock import Lock
from torvyn._cli.app import run

EXAMPLES = Path(__file__).parents[2] / "examples"
PYTHON = """\
[torvyn]
name = "x"
version = "0.1.0"
contract_version = "0.1.0"
[[component]]
name = "output-sink"
path = "components/output-sink"
isolation = "wasm"
[flow.main.nodes.lines]
component = "lines"
[flow.main.nodes.sink]
component = "output-sink"
[[flow.main.edges]]
from = "lines"
to = "sink"
"""


def checkout(example: str, folder: Path, time_s: int) -> Path:
    """A copy without build outputs, as old as one likes."""
    outputs = shutil.ignore_patterns("build", "target", "dist", "torvyn.lock")
    shutil.copytree(EXAMPLES / example, folder, symlinks=True, ignore=outputs)
    for path in folder.rglob("*"):
        os.utime(path, (time_s, time_s))
    return folder


def pack(folder: Path, monkeypatch: pytest.MonkeyPatch, *options: str) -> dict[str, bytes]:
    """Packs in the folder, with a folder of its own for temporary files."""
    own = folder.parent / f"{folder.name}-temporary"
    own.mkdir()
    monkeypatch.setenv("TMPDIR", str(own))
    monkeypatch.chdir(folder)
    monkeypatch.setattr("tempfile.tempdir", None)
    assert run(["pack", "--quiet", *options]) == 0
    return content(Layout(folder / "dist"))


@pytest.mark.promise("edge.same-component")
@pytest.mark.timeout(300)
def test_components_in_c_are_the_same_in_every_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = checkout("token-streaming-c", tmp_path / "here", 10**9)
    there = checkout("token-streaming-c", tmp_path / "far" / "away", 2 * 10**9)

    assert pack(here, monkeypatch) == pack(there, monkeypatch)


@pytest.mark.promise("edge.same-component")
@needs_rust
@pytest.mark.full
@pytest.mark.timeout(600)
def test_components_in_rust_are_the_same_in_every_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (rust_toolchain.variables() or {}).items():
        monkeypatch.setenv(name, value)
    here = checkout("token-streaming-rust", tmp_path / "here", 10**9)
    there = checkout("token-streaming-rust", tmp_path / "far" / "away", 2 * 10**9)

    assert pack(here, monkeypatch) == pack(there, monkeypatch)


@pytest.mark.full
@pytest.mark.timeout(600)
def test_a_sandboxed_component_in_python_matches_the_lock_of_another_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its bytes differ: componentize-py stores random numbers and times in them."""
    here = checkout("token-streaming", tmp_path / "here", 10**9)
    (here / "Torvyn.toml").write_text(PYTHON)
    there = shutil.copytree(here, tmp_path / "there")
    pack(here, monkeypatch)
    lock = Path(shutil.copy(here / "torvyn.lock", there)).read_bytes()

    pack(there, monkeypatch, "--locked")

    assert run(["check", "--locked"]) == 0
    assert (there / "torvyn.lock").read_bytes() == lock
    assert Lock.read(there) == Lock.read(here)
