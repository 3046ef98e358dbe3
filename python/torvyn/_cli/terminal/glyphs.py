"""The characters with which lists, quotes, tables and frames are drawn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TextIO


@dataclass(frozen=True, slots=True)
class Glyphs:
    bullet: str
    bar: str
    line: str
    cross: str
    undone: str
    done: str
    pause: str


UNICODE: Final = Glyphs("•", "│", "─", "┼", "☐", "☑", "…")
ASCII: Final = Glyphs("-", "|", "-", "+", "[ ]", "[x]", ".")


def glyphs_for(stream: TextIO) -> Glyphs:
    """Unicode glyphs if the stream's encoding has them, else ASCII."""
    try:
        "•│─┼☐☑…".encode(stream.encoding or "ascii")
    except (LookupError, UnicodeEncodeError):
        return ASCII
    return UNICODE
