"""The cells of a Markdown table: a line split into cells, a cell into lines of styled text."""

from __future__ import annotations

import re
from typing import Final

from torvyn.cli.terminal.inline_markdown import styled
from torvyn.cli.terminal.width import clusters, display_width
from torvyn.cli.terminal.word_wrap import Pen

Line = list[tuple[str, str]]
"""Text and style, part by part."""

_BAR: Final = re.compile(r"(?<!\\)\|")
_LINE_BREAK: Final = re.compile(r"<br */?>", re.IGNORECASE)


def cells(line: str) -> list[str]:
    """The cells of a row; `\\|` is a bar inside of one."""
    found = _BAR.split(line.strip())
    if len(found) > 1 and not found[0].strip():
        del found[0]
    if len(found) > 1 and not found[-1].strip():
        del found[-1]
    return [cell.strip().replace("\\|", "|") for cell in found]


def parts(cell: str, style: str, pen: Pen) -> list[Line]:
    """The lines of a cell, which writes `<br>` between them."""
    lines = _LINE_BREAK.split(cell)
    if not pen.has_styles:
        return [[(line.strip(), "")] for line in lines]
    return [list(styled(line.strip(), style)) for line in lines]


def measure(line: Line) -> int:
    return display_width("".join(text for text, _ in line))


def breaks(line: Line, width: int) -> list[Line]:
    """The line in lines of at most that width: between words, and inside a word that is wider."""
    words = re.split(r"( +)", "".join(text for text, _ in line))
    lengths: list[int] = []
    """How many characters each line takes, with the spaces that end it."""
    length = used = 0
    for word in words:
        wide = display_width(word)
        if word.startswith(" ") or used + wide <= width:
            length, used = length + len(word), used + wide
        else:
            if used:
                lengths.append(length)
            length, used = 0, 0
            for cluster in clusters(word):
                if used and used + display_width(cluster) > width:
                    lengths.append(length)
                    length, used = 0, 0
                length, used = length + len(cluster), used + display_width(cluster)
    return _cut(line, [*lengths, length])


def _cut(line: Line, lengths: list[int]) -> list[Line]:
    characters = [(character, style) for text, style in line for character in text]
    cut: list[Line] = []
    at = 0
    for length in lengths:
        row = characters[at : at + length]
        while row and row[-1][0] == " ":
            row.pop()
        cut.append(_joined(row))
        at += length
    return cut


def _joined(row: Line) -> Line:
    joined: Line = []
    for character, style in row:
        if joined and joined[-1][1] == style:
            joined[-1] = (joined[-1][0] + character, style)
        else:
            joined.append((character, style))
    return joined
