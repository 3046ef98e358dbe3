"""The display width of text, in columns of a terminal.

As in most terminals, East Asian wide characters take two columns, combining marks none, and a
sequence of joined emoji two.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

_JOINER: Final = "\u200d"
_EMOJI_STYLE: Final = "\ufe0f"
_SKIN_TONES: Final = range(0x1F3FB, 0x1F400)
_FLAG_LETTERS: Final = range(0x1F1E6, 0x1F200)
_HANGUL_TAILS: Final = range(0x1160, 0x1200)


class WidthMeter:
    """Measures text piece by piece: the width of a character depends on the one before it."""

    def __init__(self) -> None:
        self._last = ""
        self._last_width = 0

    def add(self, text: str) -> int:
        """The columns that these characters add."""
        if text.isascii():
            if text:
                self._last, self._last_width = text[-1], 1
            return len(text)
        return sum(map(self._add, text))

    def _add(self, character: str) -> int:
        width = _width(character)
        if character == _EMOJI_STYLE and self._last_width == 1:
            width, self._last_width = 1, 2
        elif self._last == _JOINER or (ord(character) in _SKIN_TONES and self._last_width == 2):
            width = 0
        elif width:
            self._last_width = width
        self._last = character
        return width


def display_width(text: str) -> int:
    return WidthMeter().add(text)


def clusters(text: str) -> Iterator[str]:
    """The parts of a text that must not be split, such as a letter with its accents."""
    start, is_half_flag = 0, False
    meter = WidthMeter()
    for at, character in enumerate(text):
        is_flag_letter = ord(character) in _FLAG_LETTERS
        is_joined = meter.add(character) == 0 or character == _EMOJI_STYLE
        if at > start and not is_joined and not (is_flag_letter and is_half_flag):
            yield text[start:at]
            start, is_half_flag = at, False
        is_half_flag = is_flag_letter and not is_half_flag
    if start < len(text):
        yield text[start:]


@lru_cache(4096)
def _width(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me", "Cf") or ord(character) in _HANGUL_TAILS:
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
