"""Renders streaming Markdown for a terminal.

The input comes in pieces of any size; the output has lines that fit the terminal, and does not
depend on how the input is split. A possible marker is buffered until it is decided, a table until
it is complete. Output is never redrawn. Control characters are escaped.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from torvyn._cli.terminal.glyphs import UNICODE, Glyphs
from torvyn._cli.terminal.inline_markdown import CODE, QUIET, STRONG, Spans
from torvyn._cli.terminal.line_prefixes import (
    BLANK,
    CLOSING,
    FENCE,
    HEADING,
    ITEM,
    MAY_BE_BLOCK,
    MAY_BE_DASHES,
    MAY_BE_ROW,
    MAY_BE_RULE,
    MAY_BE_TASK,
    MAY_CLOSE,
    QUOTE,
    ROW,
    RULE,
    TASK,
)
from torvyn._cli.terminal.table import Table
from torvyn._cli.terminal.word_wrap import Pen, Wrap
from torvyn._io.safe_text import escape_controls

TITLE: Final = "1;4"
FRAME: Final = 40
"""The width of the lines around code."""
MAX_DEPTH: Final = 200
"""The maximum number of prefixes of a line; deeper nesting is text."""


@dataclass(frozen=True, slots=True)
class Fence:
    """An open code block: how its lines begin, and what closes it."""

    mark: str
    indent: int
    quotes: int
    prefix: tuple[tuple[str, str], ...]


class Markdown:
    """Renders one answer: `feed` its text, then `finish`."""

    def __init__(
        self,
        columns: Callable[[], int] = lambda: 80,
        *,
        has_styles: bool = True,
        glyphs: Glyphs = UNICODE,
    ) -> None:
        self._pen = Pen(has_styles)
        self._wrap = Wrap(self._pen, columns)
        self._spans = Spans(self._wrap)
        self._glyphs = glyphs
        self._fence: Fence | None = None
        self._table: Table | None = None
        self._begin_line()

    def feed(self, text: str) -> str:
        """The output that is complete now."""
        self._read(escape_controls(text))
        return self._pen.take()

    def finish(self) -> str:
        """The rest; all styles are off after it."""
        is_line_open = self._lead is None
        if self._lead:
            self._begin("\n")
        while self._table is not None:
            self._close_table()
        self._spans.end_line()
        self._wrap.flush()
        if self._fence is not None:
            self._close_fence()
            is_line_open = True
        rest = self._pen.take(is_over=True)
        return rest if is_line_open else rest.removesuffix("\n")

    def _begin_line(self) -> None:
        self._lead: str | None = ""
        """The beginning of a line while it may be the mark of a block; None after that."""
        self._quotes = 0
        self._indent = 0
        """How many source columns precede the text, after the marks of quotes."""
        self._is_item = False
        self._skips_space = False

    def _end_line(self) -> None:
        self._spans.end_line()
        self._wrap.newline()
        self._begin_line()

    def _read(self, text: str) -> None:
        at = 0
        while at < len(text):
            if self._lead is not None:
                self._begin(text[at])
                at += 1
                continue
            end = text.find("\n", at)
            self._continue(text[at:] if end < 0 else text[at:end])
            if end < 0:
                return
            self._end_line()
            at = end + 1

    def _continue(self, text: str) -> None:
        """More of a line whose beginning is known."""
        if self._fence is not None:
            self._wrap.verbatim(text, CODE)
            return
        text = text.replace("\t", "    ")
        if self._pen.has_styles:
            self._spans.feed(text)
        else:
            self._wrap.put(text)

    # The beginning of a line

    def _begin(self, character: str) -> None:
        assert self._lead is not None
        if self._skips_space:
            self._skips_space = False
            if character == " ":
                return
        self._lead += "    " if character == "\t" and self._fence is None else character
        if self._fence is not None:
            self._begin_code(self._fence, self._lead)
        elif self._table is not None:
            self._begin_row(self._table, self._lead)
        else:
            self._begin_block(self._lead)

    def _begin_block(self, lead: str) -> None:
        if len(self._wrap.hanging) >= MAX_DEPTH:
            self._open_text(lead)
        elif self._is_item and (match := TASK.fullmatch(lead)):
            self._open_task(is_done=match["done"] != " ")
        elif match := QUOTE.fullmatch(lead):
            self._open_quote(match["indent"])
        elif match := HEADING.fullmatch(lead):
            self._open_heading(match["mark"])
        elif RULE.fullmatch(lead):
            self._wrap.verbatim(self._frame(), QUIET)
            self._end_line()
        elif not MAY_BE_RULE.fullmatch(lead) and (match := ITEM.match(lead)):
            self._open_items(lead)
        elif match := FENCE.fullmatch(lead):
            self._open_fence(match)
        elif match := ROW.fullmatch(lead):
            self._open_table(match)
        elif BLANK.fullmatch(lead):
            self._end_line()
        elif not (MAY_BE_BLOCK.fullmatch(lead) or (self._is_item and MAY_BE_TASK.fullmatch(lead))):
            self._open_text(lead)

    def _prefix(self, text: str, style: str = "", below: str | None = None) -> None:
        if text:
            self._wrap.prefix(text, style, text if below is None else below)

    def _open_text(self, lead: str) -> None:
        words = lead.lstrip(" ")
        self._prefix(lead[: len(lead) - len(words)])
        self._lead = None
        self._read(words)

    def _open_quote(self, indent: str) -> None:
        self._prefix(indent)
        self._prefix(f"{self._glyphs.bar} ", QUIET)
        self._quotes += 1
        self._indent = 0
        self._lead, self._is_item, self._skips_space = "", False, True

    def _open_heading(self, mark: str) -> None:
        self._spans.style = TITLE if len(mark) == 1 else STRONG
        if not self._pen.has_styles:
            self._prefix(f"{mark} ", "", "")
        self._lead = None

    def _open_items(self, lead: str) -> None:
        """Opens all items of a line at once: one at a time would take quadratic time."""
        while match := ITEM.match(lead):
            self._open_item(match["indent"], match["mark"])
            lead = lead[match.end() :]
        self._read(lead)

    def _open_item(self, indent: str, mark: str) -> None:
        bullet = self._glyphs.bullet if mark in "-*+" else mark
        self._prefix(indent)
        self._prefix(f"{bullet} ", "", " " * (len(mark) + 1))
        self._indent += len(indent) + len(mark) + 1
        self._lead, self._is_item = "", True

    def _open_task(self, is_done: bool) -> None:
        self._prefix(f"{self._glyphs.done if is_done else self._glyphs.undone} ", "", "  ")
        self._lead = None

    def _after_quotes(self, lead: str, quotes: int) -> str | None:
        """The text after the marks of the open quotes; empty if they may follow, None if not."""
        match = re.match(rf"(?: {{0,3}}>(?: |(?=[^ ]))){{{quotes}}}", lead)
        if match:
            return lead[match.end() :]
        return "" if re.fullmatch(r"[ >]{0,40}", lead) and lead.count(">") <= quotes else None

    # Code

    def _frame(self, name: str = "") -> str:
        line = self._glyphs.line
        indent = sum(len(text) for text, _ in self._wrap.hanging)
        width = max(3, min(FRAME, self._wrap.columns() - indent))
        return (f"{line * 2} {name} " if name else "").ljust(width, line)

    def _open_fence(self, match: re.Match[str]) -> None:
        self._prefix(match["indent"])
        indent = self._indent + len(match["indent"])
        prefix = tuple((below, style) for below, style in self._wrap.hanging)
        self._fence = Fence(match["fence"], indent, self._quotes, prefix)
        self._wrap.verbatim(self._frame(match["info"].strip()), QUIET)
        self._end_line()

    def _begin_code(self, fence: Fence, lead: str) -> None:
        code = self._after_quotes(lead, fence.quotes)
        if code is None:
            # The quote has ended, and its code block with it.
            self._close_fence()
            self._wrap.newline()
            self._lead = ""
            self._read(lead)
        elif (match := CLOSING.fullmatch(code)) and self._is_closed_by(match, fence):
            self._close_fence()
            self._end_line()
        elif not MAY_CLOSE.fullmatch(code):
            for text, style in fence.prefix:
                self._prefix(text, style)
            indent = min(fence.indent, len(code) - len(code.lstrip(" ")))
            self._lead = None
            self._read(code[indent:])

    def _is_closed_by(self, match: re.Match[str], fence: Fence) -> bool:
        is_long = match["fence"].startswith(fence.mark)
        return is_long and len(match["indent"]) <= fence.indent + 3

    def _close_fence(self) -> None:
        """Ends the open line and draws the end of the frame."""
        assert self._fence is not None
        if not self._wrap.is_at_start:
            self._wrap.newline()
        for text, style in self._fence.prefix:
            self._prefix(text, style)
        self._fence = None
        self._wrap.verbatim(self._frame(), QUIET)

    # Tables

    def _open_table(self, match: re.Match[str]) -> None:
        self._prefix(match["indent"])
        self._table = Table(match[0].strip(), self._pen, self._wrap, self._glyphs)
        self._table_quotes = self._quotes
        self._lead = ""

    def _begin_row(self, table: Table, lead: str) -> None:
        row = self._after_quotes(lead, self._table_quotes)
        if row is not None and table.is_started and ROW.fullmatch(row):
            table.add(row)
            self._lead = ""
        elif row is not None and not table.is_started and table.start(row):
            self._lead = ""
        elif row is None or not (MAY_BE_ROW if table.is_started else MAY_BE_DASHES).fullmatch(row):
            self._close_table()
            self._read(lead)

    def _close_table(self) -> None:
        """Draws the table; a first line without a delimiter row below it is text."""
        assert self._table is not None
        table, self._table = self._table, None
        if table.is_started:
            table.finish()
            self._begin_line()
        else:
            self._continue(table.head)
            self._end_line()
