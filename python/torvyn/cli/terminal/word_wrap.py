"""Lines of styled text that break between words, while the text streams.

What was written is never drawn again, so a word near the edge waits until it is complete; elsewhere
it leaves as it comes. The result depends on the text and the width alone, not on how the text was
split. A word that is wider than the terminal is left for the terminal to break: it then copies as
one word.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from torvyn.cli.terminal.width import WidthMeter, display_width

ROOM: Final = 24
"""With this many free columns a word is written before its end is known."""

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
    """Text with styles, as a terminal reads it. Every line ends with all styles off."""

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
        """Goes back to the beginning of the line."""
        self._restyle("")
        self._out.append("\r")

    def taken(self, is_over: bool = False) -> str:
        """What was written since the last call."""
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
    """Breaks lines before the word that does not fit.

    `prefix` begins a line and says what stands below it when the line is broken: the indent of a
    list item, the bar of a quote. The width is read again for every word, so a resize takes effect
    at once.
    """

    def __init__(self, pen: Pen, columns: Callable[[], int]) -> None:
        self._pen = pen
        self.columns = columns
        self.hanging: list[tuple[str, str]] = []
        """What continuation lines begin with: text and style."""
        self.leading: list[tuple[str, str]] = []
        """What this line begins with."""
        self._column = 0
        self._start = 0
        """The column in which the line's words begin."""
        self._spaces = ""
        self._spaces_style = ""
        self._last_kind: str | None = None
        self._begin_word()

    def prefix(self, text: str, style: str, below: str) -> None:
        """Writes the beginning of a line, with what continuation lines have in its place."""
        self._pen.write(text, style)
        self.leading.append((text, style))
        self.hanging.append((below, style))
        self._column += display_width(text)
        self._start = self._column

    def put(self, text: str, style: str = "", is_whole: bool = False) -> None:
        """`is_whole`: no word of the text is written before it is known whether it fits."""
        for found in _PIECE.finditer(text):
            kind = found.lastgroup
            if kind == "space":
                self._end_word()
                self._spaces += found[0]
                self._spaces_style = style
                continue
            if self._may_break(kind):
                self._end_word()
            self._add(found[0], kind, style, is_whole)

    def verbatim(self, text: str, style: str = "") -> None:
        """Text that is never broken here, such as code."""
        self._end_word()
        self._write_spaces()
        self._pen.write(text, style)
        self._column += display_width(text)

    def newline(self) -> None:
        """Ends the line; spaces at its end are dropped."""
        self.flush()
        self._pen.newline()
        self.reset()

    def reset(self) -> None:
        """A new line has begun."""
        self.hanging, self.leading = [], []
        self._column = self._start = 0

    @property
    def is_at_start(self) -> bool:
        """Whether nothing is on the line."""
        return self._column == 0 and not self._word

    def flush(self) -> None:
        """Writes the word that waits."""
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
        if is_first and not is_whole and self._room() >= ROOM:
            self._write_word()
            return
        if self._room() < self._word_width and self._column > self._start:
            self._break_line()
        room = self._room()
        if room < self._word_width or (room >= ROOM and not is_whole):
            self._write_word()

    def _room(self) -> int:
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
            # The terminal has broken it.
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
