"""`torvyn run` of a flow whose source is a request: where it is read, and how a block is shown."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

from transcript import Cli, Transcript, communicate

Start = Callable[..., "subprocess.Popen[str]"]
GUARDED = Path(__file__).parents[3] / "examples" / "guarded-prompt"


def test_a_request_is_read_from_a_file_or_from_standard_input(
    cli: Cli, start: Start, tmp_path: Path
) -> None:
    (tmp_path / "question.txt").write_text("I am jo@example.org\n")
    read = cli("run", "-q", "--input", str(tmp_path / "question.txt"), cwd=GUARDED)
    typed = communicate(start("run", "-q", cwd=GUARDED), "I am jo@example.org\n")

    assert read.out == typed[1] == "You asked: I am [email]\n"


def refused(cli: Cli, tmp_path: Path, *flags: str) -> Transcript:
    (tmp_path / "question.txt").write_text("What is Bluebird?\n")
    return cli("run", *flags, "--input", str(tmp_path / "question.txt"), cwd=GUARDED)


def test_a_blocked_prompt_is_reported(cli: Cli, tmp_path: Path) -> None:
    done = refused(cli, tmp_path)

    assert (done.code, done.out) == (0, "")
    assert done.err.endswith(
        "[torvyn] 1 text produced | 0 elements emitted\n"
        "[torvyn] A guard blocked the prompt; the engine did not receive it (content_filter).\n"
    )


def test_programs_read_on_which_side_a_guard_has_acted(cli: Cli, tmp_path: Path) -> None:
    done = refused(cli, tmp_path, "--format", "json", "-v")

    ended = [json.loads(line) for line in done.err.splitlines() if '"flow.ended"' in line]
    assert [(one["finish"], one["side"]) for one in ended] == [("content_filter", "prompt")]
