"""The messages a person types or pastes, or a pipe sends.

A pasted block is one message. Terminals mark what is pasted, and the line editor keeps its line
ends; where they do not, lines that arrive in one burst belong together.
"""

from __future__ import annotations

import contextlib
import select
import sys
from collections.abc import Iterable
from types import ModuleType
from typing import Final

from torvyn.cli.screen import Screen

PROMPT = "> "
MORE = ". "
BURST_S: Final = 0.03
"""Who types cannot press Enter and another key in this time."""


class Prompt:
    """`read` gives the next message, None at the end. At a terminal lines are edited and
    remembered, Ctrl-C clears the message, and a `\\` at the end of a line continues it."""

    def __init__(self, screen: Screen, remembered: Iterable[str] = ()) -> None:
        self._screen = screen
        self.is_terminal = sys.stdin is not None and sys.stdin.isatty()
        self._is_edited = self.is_terminal and sys.stdout is not None and sys.stdout.isatty()
        if self._is_edited and (readline := _readline()) is not None:
            for message in remembered:
                readline.add_history(message)

    def read(self) -> str | None:
        return self._message() if self.is_terminal else self._next()

    def _message(self) -> str | None:
        lines: list[str] = []
        # Lines that were typed during the last answer are messages of their own.
        is_typed_ahead = _has_input(0)
        while True:
            try:
                line = self._typed(MORE if lines else PROMPT)
                is_pasted = not is_typed_ahead and line is not None and _has_input(BURST_S)
            except KeyboardInterrupt:
                self._screen.note("")
                lines.clear()
                continue
            if line is None:
                self._screen.note("")
                return None
            goes_on = is_pasted or line.endswith("\\")
            lines.append(line if is_pasted else line.removesuffix("\\"))
            if not goes_on:
                return "\n".join(lines).rstrip("\n")

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


def _has_input(timeout_s: float) -> bool:
    """Whether something was typed or pasted that nobody has read."""
    try:
        return bool(select.select([sys.stdin], [], [], timeout_s)[0])
    except (OSError, ValueError):
        return False


def _readline() -> ModuleType | None:
    try:
        import readline
    except ImportError:
        return None
    if "libedit" not in (readline.__doc__ or ""):
        readline.parse_and_bind("set enable-bracketed-paste on")
    return readline
