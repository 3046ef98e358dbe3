"""Canonical JSON for everything that is written, so that equal values have equal digests; JSON from
outside is read with limits."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from torvyn.artifact.failures import invalid, too_large

_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")


def canonical(value: Any) -> bytes:
    """Sorted keys, no spaces, UTF-8."""
    text = json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )
    return text.encode()


def parse_object(data: bytes, what: str, limit_bytes: int) -> dict[str, Any]:
    """The JSON object in `data`. Keys that occur twice are refused: readers differ in which one
    they use."""
    if len(data) > limit_bytes:
        raise too_large(f"{what} has more than {limit_bytes} bytes")
    try:
        value = json.loads(data.decode(), object_pairs_hook=_unique, parse_constant=_no_constant)
        if _SURROGATE.search(data):
            # Half of a pair is no character: a text with it can be neither stored nor shown.
            canonical(value)
    except (ValueError, RecursionError) as error:
        raise invalid(f"{what} is not valid JSON: {error}") from None
    if not isinstance(value, dict):
        raise invalid(f"{what} is not a JSON object")
    return value


def text_field(value: Mapping[str, Any], key: str, what: str, default: str | None = None) -> str:
    found = value.get(key, default)
    if not isinstance(found, str):
        raise invalid(f"{what}: `{key}` is missing or not text")
    return found


def text_table(value: Mapping[str, Any], key: str, what: str) -> dict[str, str]:
    """A table of texts, such as annotations; empty if the key is missing."""
    found = value.get(key) or {}
    if not isinstance(found, dict) or not all(isinstance(text, str) for text in found.values()):
        raise invalid(f"{what}: `{key}` is not a table of texts")
    return found


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) != len(pairs):
        raise ValueError("a key occurs twice")
    return table


def _no_constant(name: str) -> Any:
    raise ValueError(f"`{name}` is not a number")
