"""What guests print without a grant: the run says what is missing, and the lines that grant it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from transcript import HEAD, Cli

GUEST = Path(__file__).parents[2] / "sandbox" / "guests" / "printer.wasm"


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Writes a flow with a guest of that name, which prints a line and a half per element."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def write(name: str, grants: str = "") -> Path:
        shutil.copy(GUEST, tmp_path / f"{name}.wasm")
        (tmp_path / "Torvyn.toml").write_text(
            f"{HEAD}"
            f'[[component]]\nname = "{name}"\npath = "{name}.wasm"\n'
            '[flow.main.nodes.source]\ncomponent = "scripted"\nconfig = { tokens = ["a", "b"] }\n'
            f'[flow.main.nodes.guest]\ncomponent = "{name}"\n'
            '[flow.main.nodes.sink]\ncomponent = "null"\n'
            '[[flow.main.edges]]\nfrom = "source"\nto = "guest"\n'
            f'[[flow.main.edges]]\nfrom = "guest"\nto = "sink"\n{grants}'
        )
        return tmp_path

    return write


def test_the_lines_that_a_run_names_grant_what_is_missing(
    write: Callable[..., Path], cli: Cli
) -> None:
    done = cli("run", cwd=write("printer"))
    text, _, grants = done.err.partition("\n\n[security.grants.")

    assert (done.code, done.out) == (0, "")
    assert text.endswith(
        "[torvyn] Not shown: `printer` printed 3 lines. To show what they print, add to "
        "Torvyn.toml:"
    )
    shown = cli("run", cwd=write("printer", f"[security.grants.{grants}"))
    assert shown.out == "hello\nworhello\nwor\n"
    assert "Not shown" not in shown.err


def test_the_grants_that_a_component_has_are_among_the_lines(
    write: Callable[..., Path], cli: Cli
) -> None:
    grants = '[security.grants.printer]\ncapabilities = ["clock:wall"]\n'

    done = cli("run", cwd=write("printer", grants))

    assert done.err.endswith(
        '[security.grants.printer]\ncapabilities = ["clock:wall", "stdio:stdout"]\n'
    )


@pytest.mark.parametrize("option", ["-v", "-q", "--format=json"])
def test_who_asks_for_the_log_or_for_quiet_is_not_told(
    option: str, write: Callable[..., Path], cli: Cli
) -> None:
    done = cli("run", option, cwd=write("printer"))

    assert (done.code, "Not shown" in done.err) == (0, False)
    assert ("worhello" in done.err) == (option != "-q")


def test_units_come_from_names_and_from_the_aggregator_before_a_sink(
    tmp_path: Path, cli: Cli
) -> None:
    parts = {
        "token-source": "torvyn.Source):\n    def __iter__(self):\n        yield from 'ab.'",
        "sentence-aggregator": "torvyn.Aggregator):\n    def ingest(self, element):\n"
        "        return None\n    def flush(self):\n        return ['ab.', 'c']",
        "keep-all": "torvyn.Filter):\n    def evaluate(self, element):\n        return True",
        "output-sink": "torvyn.Sink):\n    def push(self, element):\n        pass",
    }
    text = HEAD
    for name, source in parts.items():
        (tmp_path / f"{name}.py").write_text(f"import torvyn\nclass Part({source}\n")
        text += f'[[component]]\nname = "{name}"\npath = "."\nentry = "{name}.py"\n'
        text += f'[flow.main.nodes.{name}]\ncomponent = "{name}"\n'
    for source, target in pairwise(parts):
        text += f'[[flow.main.edges]]\nfrom = "{source}"\nto = "{target}"\n'
    (tmp_path / "Torvyn.toml").write_text(text)

    done = cli("run", cwd=tmp_path)

    assert done.err.splitlines()[-1] == "[torvyn] 3 tokens produced | 2 sentences emitted"
