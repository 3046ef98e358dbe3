"""What the command line's tests share: a transcript, and the example that most of them run."""

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


def said(process: subprocess.Popen[str], given: str) -> tuple[int, str, str]:
    """What a process makes of its whole input: exit code, output and errors."""
    out, err = process.communicate(given, timeout=30)
    return process.returncode, out, err
