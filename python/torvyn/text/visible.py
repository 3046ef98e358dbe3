"""Control characters made visible: what streamed from anywhere is shown and never obeyed."""

from __future__ import annotations

from typing import Final

CONTROLS: Final = {
    code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\t\n"
}
"""For `str.translate`: all that a terminal obeys, except tabs and line ends."""


def visible(text: str) -> str:
    """The text as a terminal may get it."""
    return text.translate(CONTROLS)
