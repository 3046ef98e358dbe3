"""Wraps streaming text with styles between words.

Output is never redrawn, so a word near the edge is buffered until it is complete; elsewhere it is
written as it arrives. The result depends only on the text and the width, not on how the text is
split. The terminal breaks a word that is wider than a line, so that it is copied as one word.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from torvyn._cli.terminal.width import WidthMeter, display_width

SAFE_COLUMNS: Final = 24
"""With this many free columns, a word is written before it is complete."""

_IDEOGRAPHS: Final = (
    "\u2e80-\u2fff\u3040-\u30ff\u3100-\u312f\u31a0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\ua000-\ua4cf\uf900-\ufaff\U00020000-\U0003ffff"
)
_CLOSERS: Final = (
    "、。，．・：；？！」』）］｝〉》】〕〗〞ー々ゝゞヽヾ"
    "ぁぃぅぇぉっゃゅょゎァィゥェォッャュョヮヵヶ"
)
_OPENERS: Final = "「『（［｛〈《【〔〖〝"
_PIECE: Final = re.compile(
    rf"(?P<space> +)|(?P<closer>[{_CLOSERS}])|(?P<opener>[{_OPENERS}])"
    rf"|(?P<ideograph>[{_IDEOGRAPHS}])|(?P<letters>[^ {_CLOSERS}{_OPENERS}{_IDEOGRAPHS}]+)"
)


class Pen:
    """Writes styled text with escape sequences. Every line ends with all styles off."""

    def __init__(self, has_styles: bool = True) -> None:
        self.has_styles = has_styles
        self._out: list[str] = []
        self._style = ""

    def write(self, text: str, style: str = "") -> None:
        if text:
            self._restyle(style)
            self._out.append(text)

    def newline(self) -> None:
        self._restyle("")
        self._out.append("\n")

    def overwrite(self) -> None:
        """Returns to the beginning of the line."""
        self._restyle("")
        self._out.append("\r")

    def take(self, is_over: bool = False) -> str:
        """The output since the last call."""
        if is_over:
            self._restyle("")
        out, self._out = "".join(self._out), []
        return out

    def _restyle(self, style: str) -> None:
        if style == self._style or not self.has_styles:
            return
        if self._style:
            self._out.append("\x1b[0m")
        if style:
            self._out.append(f"\x1b[{style}m")
        self._style = style


class Wrap:
    """Breaks lines before a word that does not fit.

    `prefix` begins a line and sets the prefix of continuation lines: the indent of a list item, the
    bar of a quote. The width is read for every word, so a resize takes effect at once.
    """

    def __init__(self, pen: Pen, columns: Callable[[], int]) -> None:
        self._pen = pen
        self.columns = columns
        self.hanging: list[tuple[str, str]] = []
        """The prefix of continuation lines: text and style."""
        self.leading: list[tuple[str, str]] = []
        """The prefix of this line."""
        self._column = 0
        self._start = 0
        """The column in which the line's words begin."""
        self._spaces = ""
        self._spaces_style = ""
        self._last_kind: str | None = None
        self._begin_word()

    def prefix(self, text: str, style: str, below: str) -> None:
        """Writes a prefix; continuation lines have `below` in its place."""
        self._pen.write(text, style)
        self.leading.append((text, style))
        self.hanging.append((below, style))
        self._column += display_width(text)
        self._start = self._column

    def put(self, text: str, style: str = "", is_whole: bool = False) -> None:
        """`is_whole`: no word of the text is written before it is complete."""
        for match in _PIECE.finditer(text):
            kind = match.lastgroup
            if kind == "space":
                self._end_word()
                self._spaces += match[0]
                self._spaces_style = style
                continue
            if self._may_break(kind):
                self._end_word()
            self._add(match[0], kind, style, is_whole)

    def verbatim(self, text: str, style: str = "") -> None:
        """Writes text that is never broken, such as code."""
        self._end_word()
        self._write_spaces()
        self._pen.write(text, style)
        self._column += display_width(text)

    def newline(self) -> None:
        """Ends the line without the spaces at its end."""
        self.flush()
        self._pen.newline()
        self.reset()

    def reset(self) -> None:
        """Begins a new line."""
        self.hanging, self.leading = [], []
        self._column = self._start = 0

    @property
    def is_at_start(self) -> bool:
        """Whether the line is empty."""
        return self._column == 0 and not self._word

    def flush(self) -> None:
        """Writes the buffered word."""
        self._end_word()
        self._spaces = ""

    def _may_break(self, kind: str | None) -> bool:
        last = self._last_kind
        if last in (None, "opener") or kind == "closer":
            return False
        return kind != "letters" or last != "letters"

    # Words

    def _begin_word(self) -> None:
        self._word: list[tuple[str, str]] = []
        self._word_width = 0
        self._is_written = False
        self._last_kind = None
        self._meter = WidthMeter()

    def _add(self, text: str, kind: str | None, style: str, is_whole: bool) -> None:
        self._last_kind = kind
        width = self._meter.add(text)
        is_first = self._word_width == 0
        self._word_width += width
        if self._is_written:
            self._write(text, style, width)
            return
        self._word.append((text, style))
        if is_first and not is_whole and self._free_columns() >= SAFE_COLUMNS:
            self._write_word()
            return
        if self._free_columns() < self._word_width and self._column > self._start:
            self._break_line()
        free = self._free_columns()
        if free < self._word_width or (free >= SAFE_COLUMNS and not is_whole):
            self._write_word()

    def _free_columns(self) -> int:
        return self.columns() - self._column - len(self._spaces)

    def _end_word(self) -> None:
        if not self._is_written and self._word:
            self._write_word()
        self._begin_word()

    def _write_word(self) -> None:
        self._write_spaces()
        self._is_written = True
        meter = WidthMeter()
        for text, style in self._word:
            self._write(text, style, meter.add(text))

    def _write_spaces(self) -> None:
        self._write(self._spaces, self._spaces_style, len(self._spaces))
        self._spaces = ""

    def _write(self, text: str, style: str, width: int) -> None:
        self._pen.write(text, style)
        self._column += width
        columns = self.columns()
        if self._column > columns:
            # The terminal has broken the line.
            self._column = (self._column - 1) % columns + 1

    def _break_line(self) -> None:
        self._pen.newline()
        self._spaces = ""
        self._column = 0
        if sum(display_width(text) for text, _ in self.hanging) * 2 <= self.columns():
            for text, style in self.hanging:
                self._pen.write(text, style)
                self._column += display_width(text)
        self._start = self._column
