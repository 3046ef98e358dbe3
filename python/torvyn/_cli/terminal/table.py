"""Draws a Markdown table with aligned columns that fit the terminal.

Rows are buffered until the table is complete, because their widths decide the columns, but at most
`MAX_BUFFERED_ROWS`: after that the columns are fixed and each row is drawn at once. If the terminal
is too narrow for columns, each cell is drawn on its own line, after the column's name.
"""

from __future__ import annotations

import re
from typing import Final

from torvyn._cli.terminal.cell import Line, break_line, cell_lines, cells, measure
from torvyn._cli.terminal.glyphs import Glyphs
from torvyn._cli.terminal.inline_markdown import QUIET, STRONG
from torvyn._cli.terminal.word_wrap import Pen, Wrap

MAX_BUFFERED_ROWS: Final = 60
MIN_WIDTH: Final = 6
"""Narrower columns are unreadable."""

DELIMITER: Final = re.compile(r" *\|?(?: *:?-+:? *\|)* *:?-+:? *\|? *\n")


class Table:
    """`start` with the delimiter row, `add` rows, then `finish`."""

    def __init__(self, head: str, pen: Pen, wrap: Wrap, glyphs: Glyphs) -> None:
        self.head = head
        """The source of the first line."""
        self.is_started = False
        self._names = cells(head)
        self._wrap = wrap
        self._leading, self._hanging = wrap.leading, wrap.hanging
        self._pen = pen
        self._glyphs = glyphs
        self._sides: list[str] = []
        self._widths: list[int] | None = None
        self._has_rules = False
        self._rows: list[list[str]] = []

    def start(self, dashes: str) -> bool:
        """Whether this is a delimiter row, which makes the line before it a table."""
        marks = cells(dashes)
        if not DELIMITER.fullmatch(dashes) or len(marks) != len(self._names):
            return False
        self._sides = [_side(mark) for mark in marks]
        self.is_started = True
        if self._pen.has_styles:
            self._pen.write(self._glyphs.pause, QUIET)
        return True

    def add(self, line: str) -> None:
        row, count = cells(line), len(self._names)
        if len(row) > count:
            # Extra cells go into the last column.
            row[count - 1 :] = [" | ".join(row[count - 1 :])]
        row += [""] * (count - len(row))
        if self._widths is not None:
            if self._has_rules:
                self._draw_rule()
            self._draw_row(row)
            return
        self._rows.append(row)
        if len(self._rows) >= MAX_BUFFERED_ROWS:
            self._draw()

    def finish(self) -> None:
        if self._widths is None:
            self._draw()

    # Drawing

    def _draw(self) -> None:
        if self._pen.has_styles:
            self._pen.overwrite()
            self._write_prefix(self._leading)
        self._wrap.reset()
        self._widths = self._column_widths()
        if self._widths:
            # The prefix of the first line is already written.
            self._draw_lines([cell_lines(name, STRONG, self._pen) for name in self._names], False)
            self._draw_rule()
            # Rows with several lines are separated by rules.
            self._has_rules = any(self._is_tall(row) for row in self._rows)
        for number, row in enumerate(self._rows):
            if number and self._has_rules:
                self._draw_rule()
            self._draw_row(row, is_first=number == 0 and not self._widths)
        if not self._widths and not self._rows:
            self._draw_row([""] * len(self._names), is_first=True)
        self._rows = []

    def _available_width(self) -> int:
        width = self._wrap.columns() - measure(self._hanging)
        return width - 3 * (len(self._names) - 1)

    def _column_widths(self) -> list[int]:
        """The width of each column; empty if the terminal is too narrow for columns."""
        natural = [
            max(1, *(measure(line) for row in column for line in cell_lines(row, "", self._pen)))
            for column in zip(self._names, *self._rows, strict=True)
        ]
        rest, count = self._available_width(), len(natural)
        if sum(natural) > rest and rest < count * MIN_WIDTH:
            return []
        widths = [0] * count
        for done, index in enumerate(sorted(range(count), key=natural.__getitem__)):
            widths[index] = min(natural[index], rest // (count - done))
            rest -= widths[index]
        return widths

    def _draw_row(self, row: list[str], is_first: bool = False) -> None:
        if self._widths:
            self._draw_lines([cell_lines(cell, "", self._pen) for cell in row], True)
        else:
            self._draw_record(row, is_first)

    def _break_cells(self, row: list[list[Line]]) -> list[list[Line]]:
        """The lines of each cell, broken at the width of its column."""
        assert self._widths is not None
        return [
            [part for line in lines for part in break_line(line, width)]
            for lines, width in zip(row, self._widths, strict=True)
        ]

    def _is_tall(self, row: list[str]) -> bool:
        return any(
            len(lines) > 1
            for lines in self._break_cells([cell_lines(cell, "", self._pen) for cell in row])
        )

    def _draw_lines(self, row: list[list[Line]], has_prefix: bool) -> None:
        broken = self._break_cells(row)
        for number in range(max(map(len, broken))):
            if has_prefix or number:
                self._write_prefix(self._hanging)
            line = [lines[number] if number < len(lines) else [] for lines in broken]
            self._draw_line(line)

    def _draw_line(self, line: list[Line]) -> None:
        assert self._widths is not None
        for index, (cell, width) in enumerate(zip(line, self._widths, strict=True)):
            if index:
                self._pen.write(f" {self._glyphs.bar} ", QUIET)
            free = width - measure(cell)
            left = {"right": free, "center": free // 2}.get(self._sides[index], 0)
            self._pen.write(" " * left)
            for text, style in cell:
                self._pen.write(text, style)
            if index + 1 < len(line):
                self._pen.write(" " * (free - left))
        self._pen.newline()

    def _draw_rule(self) -> None:
        assert self._widths is not None
        line, cross = self._glyphs.line, self._glyphs.cross
        self._write_prefix(self._hanging)
        self._pen.write(f"{line}{cross}{line}".join(line * width for width in self._widths), QUIET)
        self._pen.newline()

    def _draw_record(self, row: list[str], is_first: bool) -> None:
        """A row without columns: one line per cell."""
        wrap = Wrap(self._pen, self._wrap.columns)
        for index, (name, cell) in enumerate(zip(self._names, row, strict=True)):
            for text, style in self._hanging if index or not is_first else ():
                wrap.prefix(text, style, text)
            wrap.prefix("  " if index else f"{self._glyphs.bullet} ", QUIET, "    ")
            for text, style in _flat(cell_lines(f"{name}:", STRONG, self._pen)):
                wrap.put(text, style)
            for line in cell_lines(cell, "", self._pen):
                wrap.put(" ")
                for text, style in line:
                    wrap.put(text, style)
            wrap.newline()

    def _write_prefix(self, prefix: Line) -> None:
        for text, style in prefix:
            self._pen.write(text, style)


def _flat(lines: list[Line]) -> Line:
    return [part for line in lines for part in line]


def _side(mark: str) -> str:
    if mark.endswith(":"):
        return "center" if mark.startswith(":") else "right"
    return "left"
