"""Removes secrets from text: values from the environment or from a key file.

A value shorter than `MIN_SECRET_CHARS` stays: removing `a` would make every message unreadable.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

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
