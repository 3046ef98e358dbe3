"""Escapes control characters, so that a terminal shows them and does not obey them."""

from __future__ import annotations

from typing import Final

BIDI_CONTROLS: Final = (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
"""Unicode's `Bidi_Control`, which changes the display order of the text around it."""

LINE_SEPARATORS: Final = (0x2028, 0x2029)

_C0_AND_C1: Final = (*range(0x20), *range(0x7F, 0xA0))

CONTROLS: Final = {code: f"\\x{code:02x}" for code in _C0_AND_C1 if chr(code) not in "\t\n"} | {
    code: f"\\u{code:04x}" for code in (*BIDI_CONTROLS, *LINE_SEPARATORS)
}
"""For `str.translate`: every character that a terminal obeys, except tabs and line ends."""

_BEYOND_JSON: Final = {
    code: f"\\u{code:04x}" for code in (*range(0x7F, 0xA0), *BIDI_CONTROLS, *LINE_SEPARATORS)
}
"""What a terminal obeys and JSON does not escape."""


def escape_controls(text: str) -> str:
    """The text, safe to print on a terminal."""
    return writable(text).translate(CONTROLS)


def escape_line(text: str) -> str:
    """The same for a text that must stay on its line, such as a title that somebody else wrote."""
    return escape_controls(text).replace("\n", "\\n").replace("\t", "\\t")


def escape_json(text: str) -> str:
    """JSON that means the same, safe to print on a terminal: outside of its texts, it has no such
    characters."""
    return text if text.isascii() and "\x7f" not in text else writable(text).translate(_BEYOND_JSON)


def writable(text: str) -> str:
    """The text without halves of surrogate pairs, which stand for bytes that are not UTF-8, such as
    in the name of a file: no stream takes them."""
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()
