"""`tools/progress.py`: the progress of a long step, on a terminal, in a log, and on failure."""

from __future__ import annotations

import io
import re
import subprocess
import sys

import progress
import pytest


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def show(*arguments: str) -> tuple[int, str, str]:
    command = [sys.executable, progress.__file__, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)
    return done.returncode, done.stdout, re.sub(r"\d+ s\n", "<time>\n", done.stderr)


def test_a_log_gets_a_line_at_the_start_and_at_the_end():
    printed = "print('Ignoring aiohttp: markers do not match')"

    code, out, err = show("Building", "--", sys.executable, "-c", printed)

    assert (code, out) == (0, "")
    assert err == "Building: <time>\nBuilding: done after <time>\n"


def test_a_failure_shows_all_output_without_the_progress():
    printed = r"""
import sys
sys.stderr.write("   Compiling syn v2.0.1\n    Building [==>    ] 3/12: syn\r")
sys.stderr.write("\x1b[Kerror[E0425]: cannot find value `x`\n  --> src/lib.rs:1:1\n")
sys.exit(101)
"""

    code, out, err = show("Building", "--", sys.executable, "-c", printed)

    assert (code, out) == (101, "")
    assert err.splitlines()[-3:] == [
        "Building: failed (exit code 101) after <time>",
        "error[E0425]: cannot find value `x`",
        "  --> src/lib.rs:1:1",
    ]


def test_wrong_usage_is_rejected():
    assert show("Building", "make")[0] == 2


def test_a_terminal_shows_one_line_that_is_rewritten():
    screen = Screen()
    line = progress.ProgressLine("Building", screen, now_s=0.0)

    line.show(1.0)
    line.crates = (45, 234)
    line.show(75.0)
    line.end(130.0, "done")

    assert screen.getvalue().split("\r\x1b[K") == [
        "",
        "Building: 1 s",
        "Building: 45 of 234 crates, 1 min 15 s",
        "Building: done after 2 min 10 s\n",
    ]


def test_a_log_gets_a_line_periodically():
    log = io.StringIO()
    line = progress.ProgressLine("Building", log, now_s=0.0)

    for second in range(60):
        line.crates = (second, 99)
        line.show(float(second))

    assert log.getvalue().splitlines() == [
        "Building: 0 of 99 crates, 0 s",
        "Building: 20 of 99 crates, 20 s",
        "Building: 40 of 99 crates, 40 s",
    ]


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_the_crates_are_found_however_the_output_is_split(size: int):
    text = "   Compiling a v1\n    Building [=>     ] 1/12: a\r    Building [====> ] 10/12: b\r"
    output, found = progress.Output(), []

    for begin in range(0, len(text), size):
        found.append(output.add(text[begin : begin + size]))

    assert [each for each in found if each][-1] == (10, 12)
