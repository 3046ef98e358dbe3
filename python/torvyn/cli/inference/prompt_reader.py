"""Reads the messages that a person types or pastes, or that a pipe sends.

A pasted block is one message. Most terminals mark pasted text, and the line editor keeps its line
ends; in other terminals, lines that arrive in one burst are one message.
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
"""Nobody types Enter and another key within this time."""


class PromptReader:
    """`read` returns the next message, or None at the end. A terminal has line editing with a
    history; Ctrl-C clears the message, and a `\\` at the end of a line continues it."""

    def __init__(self, screen: Screen, history: Iterable[str] = ()) -> None:
        self._screen = screen
        self.is_terminal = sys.stdin is not None and sys.stdin.isatty()
        self._is_edited = self.is_terminal and sys.stdout is not None and sys.stdout.isatty()
        if self._is_edited and (readline := _readline()) is not None:
            for message in history:
                readline.add_history(message)

    def read(self) -> str | None:
        return self._message() if self.is_terminal else self._next()

    def _message(self) -> str | None:
        lines: list[str] = []
        # Each line that was typed during the last answer is a message.
        is_typed_ahead = _has_input(0)
        while True:
            try:
                line = self._read_line(MORE if lines else PROMPT)
                is_pasted = not is_typed_ahead and line is not None and _has_input(BURST_S)
            except KeyboardInterrupt:
                self._screen.message("")
                lines.clear()
                continue
            if line is None:
                self._screen.message("")
                return None
            goes_on = is_pasted or line.endswith("\\")
            lines.append(line if is_pasted else line.removesuffix("\\"))
            if not goes_on:
                return "\n".join(lines).rstrip("\n")

    def _read_line(self, prompt: str) -> str | None:
        if self._is_edited:
            painted = self._screen.paint(prompt, "bold", sys.stdout)
            if painted != prompt:
                # The line editor does not count the characters between these marks.
                painted = f"\x01\x1b[1m\x02{prompt}\x01\x1b[0m\x02"
            with contextlib.suppress(EOFError):
                return input(painted).encode(errors="surrogateescape").decode(errors="replace")
            return None
        sys.stderr.write(prompt)
        sys.stderr.flush()
        return self._next()

    def _next(self) -> str | None:
        """Replaces bytes that are not UTF-8, so that the chat continues."""
        if sys.stdin is None:
            return None
        line = sys.stdin.buffer.readline()
        return line.decode(errors="replace").rstrip("\r\n") if line else None


def _has_input(timeout_s: float) -> bool:
    """Whether there is unread input."""
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
