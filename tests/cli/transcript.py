"""Shared by the tests of the command line: a transcript, and the example that most of them run."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

HEAD = '[torvyn]\nname = "project"\nversion = "0.1.0"\ncontract_version = "0.1.0"\n'

EXAMPLE = Path(__file__).parents[2] / "examples" / "token-streaming"


@dataclass(frozen=True)
class Transcript:
    code: int
    out: str
    err: str


Cli = Callable[..., Transcript]


def communicate(process: subprocess.Popen[str], text: str) -> tuple[int, str, str]:
    """Sends the whole input; returns the exit code, output and errors."""
    out, err = process.communicate(text, timeout=30)
    return process.returncode, out, err
