"""Runs a command that takes minutes and shows its progress on one line.

    python tools/progress.py "Building the native core" -- maturin develop --release

On a terminal the line is updated in place; elsewhere a new line is printed every 20 seconds. The
output of the command is printed only if it fails. Uses only the standard library, because it runs
before anything is installed.
"""

from __future__ import annotations

import os
import re
import selectors
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import IO, Final, TextIO

_CARGO: Final = {
    "CARGO_TERM_PROGRESS_WHEN": "always",
    "CARGO_TERM_PROGRESS_WIDTH": "100",
    "CARGO_TERM_COLOR": "never",
}
_BUILDING: Final = re.compile(r"Building \[[=> ]*\]\s+(\d+)/(\d+)")
_PROGRESS_LINE: Final = re.compile(
    r"\s*(Building \[|Compiling |Download|Blocking |Updating |Locking )"
)
_REFRESH_S: Final = 0.5
_LINE_EVERY_S: Final = 20.0


class ProgressLine:
    """The label, the number of compiled crates and the elapsed time."""

    def __init__(self, label: str, out: TextIO, now_s: float) -> None:
        self._label = label
        self._out = out
        self._begin_s = now_s
        self._is_terminal = out.isatty()
        self._shown_s: float | None = None
        self.crates: tuple[int, int] | None = None

    def show(self, now_s: float) -> None:
        if self._is_terminal:
            self._out.write(f"\r\x1b[K{self._text(now_s)}")
        elif self._shown_s is None or now_s - self._shown_s >= _LINE_EVERY_S:
            self._shown_s = now_s
            self._out.write(self._text(now_s) + "\n")
        self._out.flush()

    def end(self, now_s: float, how: str) -> None:
        start = "\r\x1b[K" if self._is_terminal else ""
        self._out.write(f"{start}{self._label}: {how} after {elapsed(now_s - self._begin_s)}\n")
        self._out.flush()

    def _text(self, now_s: float) -> str:
        took = elapsed(now_s - self._begin_s)
        if self.crates is None:
            return f"{self._label}: {took}"
        done, total = self.crates
        return f"{self._label}: {done} of {total} crates, {took}"


class Output:
    """The output of a command; `add` returns the progress that it contains."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._rest = ""

    def add(self, text: str) -> tuple[int, int] | None:
        *lines, self._rest = re.split(r"[\r\n]", self._rest + text)
        self._lines += lines
        # Cargo ends its progress with a carriage return, so the last line may be incomplete.
        matches = [match for piece in (*lines, self._rest) if (match := _BUILDING.search(piece))]
        return (int(matches[-1][1]), int(matches[-1][2])) if matches else None

    def without_progress(self) -> str:
        lines = (line.replace("\x1b[K", "").rstrip() for line in (*self._lines, self._rest))
        return "\n".join(line for line in lines if line and not _PROGRESS_LINE.match(line))


def elapsed(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def run(label: str, command: Sequence[str], environment: Mapping[str, str] | None = None) -> int:
    """The exit code of the command."""
    line = ProgressLine(label, sys.stderr, time.monotonic())
    line.show(time.monotonic())
    variables = {**os.environ, **_CARGO, **(environment or {})}
    with subprocess.Popen(
        command, env=variables, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        try:
            output = _follow(process.stdout, line)
            code = process.wait()
        except KeyboardInterrupt:
            process.wait()
            line.end(time.monotonic(), "interrupted")
            return 130
    line.end(time.monotonic(), "done" if code == 0 else f"failed (exit code {code})")
    if code != 0:
        print(output.without_progress(), file=sys.stderr)
    return code


def _follow(stream: IO[bytes], line: ProgressLine) -> Output:
    output = Output()
    with selectors.DefaultSelector() as selector:
        selector.register(stream, selectors.EVENT_READ)
        while True:
            if selector.select(_REFRESH_S):
                text = os.read(stream.fileno(), 65536).decode(errors="replace")
                if not text:
                    return output
                line.crates = output.add(text) or line.crates
            line.show(time.monotonic())


def main(arguments: Sequence[str]) -> int:
    label, separator, *command = arguments
    if separator != "--" or not command:
        print('usage: progress.py "Label" -- command ...', file=sys.stderr)
        return 2
    return run(label, command)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
