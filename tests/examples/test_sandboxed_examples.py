"""The token-streaming flow in C, Rust, sandboxed Python and mixed prints the same as in-process."""

from __future__ import annotations

import shutil
from pathlib import Path

import missing
import pytest
from click.testing import CliRunner, Result
from scale import sample

import rust_toolchain
from toolchains import RUST
from torvyn._cli.app import group

EXAMPLES = Path(__file__).parents[2] / "examples"
EXPECTED = (EXAMPLES / "token-streaming" / "expected.txt").read_text()

# Each component in Python takes seconds to build and to compile.
FORMS = sample(["c"], full=["c", "mixed", "rust", "wasm"])


MOST_BYTES = {"c": 32 << 10, "mixed": 24 << 20, "rust": 256 << 10, "wasm": 24 << 20}
"""The sizes that the READMEs promise."""
SPOKEN = "".join(line for line in EXPECTED.splitlines(keepends=True) if line.startswith("[output"))
TOLD = "[content-filter] Filtered 1 token(s) during this flow."


def torvyn(*arguments: str) -> Result:
    return CliRunner().invoke(group, arguments, standalone_mode=False)


@pytest.mark.promise(
    "tokens.c-port",
    "tokens.python-guests",
    "tokens.rust-port",
    "tokens.default-block-list",
    "tokens.config-table",
    "tokens.teardown-message",
)
@pytest.mark.timeout(600)
@pytest.mark.parametrize("form", FORMS)
def test_a_sandboxed_version_does_the_same(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Only its own folder, as a person would copy it, without build outputs.
    folder = tmp_path / f"token-streaming-{form}"
    ignored = shutil.ignore_patterns("build", "target", "__pycache__")
    shutil.copytree(EXAMPLES / folder.name, folder, symlinks=True, ignore=ignored)
    monkeypatch.chdir(folder)
    if form == "rust":
        if (variables := rust_toolchain.variables()) is None:
            missing.skip(RUST)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
    built = torvyn("build")
    assert built.return_value == 0, built.output
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    done = torvyn("run", "flow.main")

    assert done.return_value == 0, done.output
    assert done.output.rstrip() == EXPECTED.rstrip()
    assert all(file.stat().st_size < MOST_BYTES[form] for file in folder.glob("**/build/*.wasm"))
    check_teardown_message()
    check_words(takes_table=form in ("mixed", "wasm"), manifest=folder / "Torvyn.toml")


def check_teardown_message() -> None:
    """It goes to the log, and standard output stays as it is."""
    told = torvyn("run", "-v")
    assert (told.stdout, TOLD in told.stderr) == (SPOKEN, True)
    assert TOLD not in torvyn("run", "-v", "--config", "filter=absent").stderr


def check_words(*, takes_table: bool, manifest: Path) -> None:
    """An empty list blocks the documented word, and a table filters or is refused."""
    for empty in ("", " ", ",", " , "):
        assert torvyn("run", "-q", "--config", f"filter={empty}").stdout == SPOKEN
    named = torvyn("run", "-q", "--config", "filter= FOX ,dog,")
    assert "The quick brown jumped over the lazy." in named.stdout
    assert "The blocked_word was filtered." in named.stdout

    in_json = torvyn("run", "-q", "--config", 'filter={"words": ["fox"]}')
    assert (in_json.return_value == 0) is takes_table
    text = manifest.read_text()
    manifest.write_text(text.replace('"blocked_word"', '{ words = ["fox"] }'))
    checked = torvyn("check")
    if takes_table:
        assert checked.return_value == 0, checked.output
        assert "The quick brown jumped" in torvyn("run", "-q").stdout
    else:
        line = text.splitlines().index('config = "blocked_word"') + 1
        assert "`content-filter` takes text as its config, not a table" in checked.output
        assert f"Torvyn.toml:{line}:10" in checked.output
        assert 'hint: write text, `config = "..."`' in checked.output
