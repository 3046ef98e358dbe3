"""Golden transcripts: `transcripts/*.txt` hold command lines and their complete output.

A file is a series of `$ torvyn ...` lines, each followed by the exit code, stdout and stderr. They
run one after the other in one copy of the example. Times, rates, the machine and paths are masked.
`UPDATE_TRANSCRIPTS=1 pytest` rewrites the files; review the changes.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from pathlib import Path

import pytest
from transcript import EXAMPLE, Cli, Transcript

from torvyn._cli.app import COMMANDS

FILES = sorted((Path(__file__).parent / "transcripts").glob("*.txt"))


FIGURES = r'"(\w*_ns|elapsed_s|median|lowest|highest)": [\d.e+-]+'
MASKS = (
    (r'"time": "[^"]*"', '"time": <time of day>'),
    (FIGURES, r'"\1": <n>'),
    (r"\+?\b\d+(\.\d+)?(e\+\d+)? (ns|us|ms|s)\b", "<time>"),
    (r"[\d,]+ elements/s \(median of (\d+); [\d,]+ to [\d,]+\)", r"<rate> (median of \1)"),
    (r"\b\d+(\.\d+)?%", "<share>"),
    (r"torvyn [\d.]+, Python .* cores", "<machine>"),
    (r"torvyn \d[\d.]*$", "torvyn <version>"),
    (r"sha256:[0-9a-f]{64}", "sha256:<digest>"),
    (r'"(id|key_id)": "[0-9a-f]{64}"', r'"\1": "<id>"'),
    (r"\b(key |, )[0-9a-f]{12}\b", r"\1<id>"),
)


def masked(text: str, folder: Path) -> str:
    """Masks what differs from run to run; columns with a mask lose their padding."""
    text = text.replace(str(folder), "<folder>")
    for pattern, mask in MASKS:
        text = re.sub(pattern, mask, text, flags=re.MULTILINE)
    return re.sub(r" {2,}", " ", text) if "<time>" in text else text


def rendered(line: str, done: Transcript, folder: Path) -> str:
    parts = [f"$ torvyn {line}\nexit {done.code}\n"]
    for name, text in (("stdout", done.out), ("stderr", done.err)):
        if text:
            parts.append(f"--- {name}\n{masked(text, folder)}")
    return "".join(parts)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_command_answers_as_its_transcript_says(
    path: Path, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "token-streaming"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("COLUMNS", "80")
    expected = path.read_text()
    lines = re.findall(r"^\$ torvyn ?(.*)$", expected, re.MULTILINE)

    found = "\n".join(
        rendered(line, cli(*shlex.split(line), cwd=folder), tmp_path) for line in lines
    )

    if os.environ.get("UPDATE_TRANSCRIPTS"):
        path.write_text(found)
    assert found == expected


def test_every_command_has_a_transcript() -> None:
    assert {path.stem for path in FILES} >= set(COMMANDS)
