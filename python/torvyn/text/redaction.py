"""Redaction: texts without the values that came from the environment or a key file.

A value of fewer than `SHORTEST` characters stays: it protects nothing, and its letters are in every
other word, so a variable that holds `a` would leave no message readable.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

REDACTED: Final = "[redacted]"
SHORTEST: Final = 4


def redact(text: str, secrets: Iterable[str]) -> str:
    """The text without the secrets, also where one became part of JSON text."""
    pattern = _pattern(frozenset(secrets))
    return text if pattern is None else pattern.sub(REDACTED, text)


@lru_cache(maxsize=16)
def _pattern(secrets: frozenset[str]) -> re.Pattern[str] | None:
    forms = {form for secret in secrets if len(secret) >= SHORTEST for form in _forms(secret)}
    # The longest first: no part of one that holds another is left over.
    ordered = sorted(forms, key=lambda form: (-len(form), form))
    return re.compile("|".join(map(re.escape, ordered))) if ordered else None


def _forms(secret: str) -> tuple[str, str, str]:
    return secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]
