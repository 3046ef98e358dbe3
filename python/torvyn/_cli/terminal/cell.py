"""The cells of a Markdown table: splits a row into cells, and a cell into lines of styled text."""

from __future__ import annotations

import re
from typing import Final

from torvyn._cli.terminal.inline_markdown import styled_pieces
from torvyn._cli.terminal.width import clusters, display_width
from torvyn._cli.terminal.word_wrap import Pen

Line = list[tuple[str, str]]
"""Pieces of text, each with its style."""

_BAR: Final = re.compile(r"(?<!\\)\|")
_LINE_BREAK: Final = re.compile(r"<br */?>", re.IGNORECASE)


def cells(line: str) -> list[str]:
    """The cells of a row; `\\|` is a bar inside of one."""
    row = _BAR.split(line.strip())
    if len(row) > 1 and not row[0].strip():
        del row[0]
    if len(row) > 1 and not row[-1].strip():
        del row[-1]
    return [cell.strip().replace("\\|", "|") for cell in row]


def cell_lines(cell: str, style: str, pen: Pen) -> list[Line]:
    """The lines of a cell, which are separated by `<br>`."""
    lines = _LINE_BREAK.split(cell)
    if not pen.has_styles:
        return [[(line.strip(), "")] for line in lines]
    return [list(styled_pieces(line.strip(), style)) for line in lines]


def measure(line: Line) -> int:
    return display_width("".join(text for text, _ in line))


def break_line(line: Line, width: int) -> list[Line]:
    """Breaks a line at that width: between words, and inside a word that is wider."""
    words = re.split(r"( +)", "".join(text for text, _ in line))
    lengths: list[int] = []
    """The number of characters in each line, including the spaces at its end."""
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
    rows: list[Line] = []
    at = 0
    for length in lengths:
        row = characters[at : at + length]
        while row and row[-1][0] == " ":
            row.pop()
        rows.append(_merge_styles(row))
        at += length
    return rows


def _merge_styles(row: Line) -> Line:
    merged: Line = []
    for character, style in row:
        if merged and merged[-1][1] == style:
            merged[-1] = (merged[-1][0] + character, style)
        else:
            merged.append((character, style))
    return merged
