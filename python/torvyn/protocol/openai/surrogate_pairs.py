"""Joins surrogate pairs that an upstream split over two chunks.

The first half is kept until the second arrives; a lone half becomes U+FFFD. The output can always
be encoded.
"""

from __future__ import annotations

from typing import Final

REPLACEMENT: Final = "\ufffd"


def encodable(text: str) -> str:
    """The text with halves of surrogate pairs joined, or replaced where they are alone."""
    try:
        text.encode()
    except UnicodeEncodeError:
        # UTF-16 joins the pairs; a half by itself is not UTF-16.
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


class SurrogateJoiner:
    """Keeps first halves for all texts of a stream, by a key such as `(index, kind)`."""

    __slots__ = ("_first_halves",)

    def __init__(self) -> None:
        self._first_halves: dict[tuple[int, str], str] = {}

    def __bool__(self) -> bool:
        return bool(self._first_halves)

    def join(self, key: tuple[int, str], text: str) -> str:
        """The text with the kept half before it, and without a first half at its end."""
        if text.isascii() and not self._first_halves:
            return text
        if not text:
            return ""
        text = self._first_halves.pop(key, "") + text
        if "\ud800" <= text[-1] <= "\udbff":
            self._first_halves[key] = text[-1]
            text = text[:-1]
        return encodable(text)

    def release(self, index: int) -> list[tuple[str, str]]:
        """Ends a choice: `(kind, U+FFFD)` for each half that is still kept."""
        keys = [key for key in self._first_halves if key[0] == index]
        for key in keys:
            del self._first_halves[key]
        return [(kind, REPLACEMENT) for _, kind in keys]
