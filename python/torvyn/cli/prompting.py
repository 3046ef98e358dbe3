"""The lines a person types, or a pipe sends: one a turn."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable
from types import ModuleType

from torvyn.cli.screen import Screen

PROMPT = "> "
MORE = ". "


class Prompt:
    """`read` gives the next turn, None at the end. At a terminal lines are edited and remembered,
    Ctrl-C clears the line, and a `\\` at its end continues it."""

    def __init__(self, screen: Screen, remembered: Iterable[str] = ()) -> None:
        self._screen = screen
        self.is_terminal = sys.stdin is not None and sys.stdin.isatty()
        self._is_edited = self.is_terminal and sys.stdout is not None and sys.stdout.isatty()
        if self._is_edited:
            readline = _readline()
            for line in remembered if readline is not None else ():
                if "\n" not in line and readline is not None:
                    readline.add_history(line)

    def read(self) -> str | None:
        if not self.is_terminal:
            return self._next()
        lines: list[str] = []
        while True:
            try:
                line = self._typed(MORE if lines else PROMPT)
            except KeyboardInterrupt:
                self._screen.note("")
                lines.clear()
                continue
            if line is None:
                self._screen.note("")
                return None
            lines.append(line.removesuffix("\\"))
            if not line.endswith("\\"):
                return "\n".join(lines)

    def _typed(self, prompt: str) -> str | None:
        if self._is_edited:
            painted = self._screen.paint(prompt, "bold", sys.stdout)
            if painted != prompt:
                # Between these marks nothing takes room on the line, for who edits it.
                painted = f"\x01\x1b[1m\x02{prompt}\x01\x1b[0m\x02"
            with contextlib.suppress(EOFError):
                return input(painted).encode(errors="surrogateescape").decode(errors="replace")
            return None
        sys.stderr.write(prompt)
        sys.stderr.flush()
        return self._next()

    def _next(self) -> str | None:
        """Bytes that are no UTF-8 are replaced: a chat goes on."""
        if sys.stdin is None:
            return None
        line = sys.stdin.buffer.readline()
        return line.decode(errors="replace").rstrip("\r\n") if line else None


def _readline() -> ModuleType | None:
    try:
        import readline
    except ImportError:
        return None
    return readline
