"""Surrogate pairs that an upstream has cut in two: the first half waits for the second.

A half that stays alone becomes U+FFFD. What leaves can always be encoded.
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
    """One memory for all texts of a stream, by a key such as `(index, kind)`."""

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held: dict[tuple[int, str], str] = {}

    def __bool__(self) -> bool:
        return bool(self._held)

    def join(self, key: tuple[int, str], text: str) -> str:
        """The text with what was held before it, without a first half at its end."""
        if text.isascii() and not self._held:
            return text
        if not text:
            return ""
        text = self._held.pop(key, "") + text
        if "\ud800" <= text[-1] <= "\udbff":
            self._held[key] = text[-1]
            text = text[:-1]
        return encodable(text)

    def release(self, index: int) -> list[tuple[str, str]]:
        """The choice is over: `(kind, U+FFFD)` for each half that stayed alone."""
        keys = [key for key in self._held if key[0] == index]
        for key in keys:
            del self._held[key]
        return [(kind, REPLACEMENT) for _, kind in keys]
