"""The token-streaming flow in C, Rust, sandboxed Python and mixed prints the same as in-process."""

from __future__ import annotations

import shutil
from pathlib import Path

import missing
import pytest
from click.testing import CliRunner
from scale import sample

import rust_toolchain
from toolchains import RUST
from torvyn.cli.app import group

EXAMPLES = Path(__file__).parents[2] / "examples"
EXPECTED = (EXAMPLES / "token-streaming" / "expected.txt").read_text()

# Each component in Python takes seconds to build and to compile.
FORMS = sample(["c"], full=["c", "mixed", "rust", "wasm"])


@pytest.mark.promise("tokens.c-port", "tokens.python-guests", "tokens.rust-port")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("form", FORMS)
def test_a_sandboxed_version_prints_the_same(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"token-streaming-{form}"
    # Only its own folder, as a person would copy it, without build outputs.
    ignored = shutil.ignore_patterns("build", "target", "__pycache__")
    shutil.copytree(EXAMPLES / name, tmp_path / name, symlinks=True, ignore=ignored)
    monkeypatch.chdir(tmp_path / name)
    if form == "rust":
        if (variables := rust_toolchain.variables()) is None:
            missing.skip(RUST)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
    built = CliRunner().invoke(group, ["build"], standalone_mode=False)
    assert built.return_value == 0, built.output
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    done = CliRunner().invoke(group, ["run", "flow.main"], standalone_mode=False)

    assert done.return_value == 0, done.output
    assert done.output.rstrip() == EXPECTED.rstrip()
