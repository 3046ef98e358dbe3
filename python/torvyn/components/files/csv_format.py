"""What the CSV source and the CSV sink share."""

from __future__ import annotations

from typing import Final

from torvyn.components.config import wrong_config
from torvyn.components.spec import Option, Spec

DELIMITER: Final = Option(
    "delimiter", "text", ",", "The character between two cells; `tab` means a tab."
)


def parse_delimiter(spec: Spec, text: str) -> str:
    text = {"\\t": "\t", "tab": "\t"}.get(text, text)
    if len(text) != 1 or text in '"\r\n':
        raise wrong_config(spec, "`delimiter` must be one character", 'such as "," or ";" or "tab"')
    return text
