"""Text that is safe to show: control characters are escaped, and secrets removed.

A terminal shows escaped characters and does not obey them. Secrets are values from the environment
or from a key file; one shorter than `MIN_SECRET_CHARS` stays, because removing `a` would make every
message unreadable.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from functools import lru_cache
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


REDACTED: Final = "[redacted]"
MIN_SECRET_CHARS: Final = 4


def redact(text: str, secrets: Iterable[str]) -> str:
    """The text without the secrets, including their JSON-escaped forms."""
    pattern = _pattern(frozenset(secrets))
    return text if pattern is None else pattern.sub(REDACTED, text)


def without_credentials(urls: str) -> str:
    """URLs, with commas between them, without user names, passwords and tokens."""
    parts = [url.strip().rpartition("//") for url in urls.split(",")]
    return ", ".join(f"{scheme}{mark}{rest.rpartition('@')[2]}" for scheme, mark, rest in parts)


@lru_cache(maxsize=16)
def _pattern(secrets: frozenset[str]) -> re.Pattern[str] | None:
    forms = {
        form for secret in secrets if len(secret) >= MIN_SECRET_CHARS for form in _forms(secret)
    }
    # The longest first, so that a secret that contains another is removed completely.
    ordered = sorted(forms, key=lambda form: (-len(form), form))
    return re.compile("|".join(map(re.escape, ordered))) if ordered else None


def _forms(secret: str) -> tuple[str, str, str]:
    return secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]
