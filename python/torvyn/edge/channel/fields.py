"""Fields of JSON objects, checked. Errors are `ValueError`s that name the field."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from torvyn.artifact.json_form import parse_object
from torvyn.errors import TorvynError

MAX_NUMBER: Final = 2**63 - 1
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,127}")
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


def parse(data: bytes, limit_bytes: int) -> dict[str, Any]:
    """A JSON object from outside."""
    try:
        return parse_object(data, "it", limit_bytes)
    except TorvynError as error:
        raise ValueError(error.message) from None


def number(value: Mapping[str, Any], key: str, least: int = 0, most: int = MAX_NUMBER) -> int:
    found = value.get(key)
    # `True` is an `int` in Python, and a float loses digits in other languages.
    if type(found) is not int or not least <= found <= most:
        raise ValueError(f"`{key}` is not a whole number from {least} to {most}")
    return found


def text(value: Mapping[str, Any], key: str, most: int = 4096) -> str:
    found = value.get(key)
    if not isinstance(found, str) or len(found) > most:
        raise ValueError(f"`{key}` is not a text of at most {most} characters")
    return found


def name(value: Mapping[str, Any], key: str) -> str:
    found = text(value, key, 128)
    if not _NAME.fullmatch(found):
        raise ValueError(f"`{key}` is not a name of lower-case letters, digits, `.`, `_` and `-`")
    return found


def table(value: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = value.get(key)
    if not isinstance(found, Mapping):
        raise ValueError(f"`{key}` is not an object")
    return found


def items(value: Mapping[str, Any], key: str, most: int) -> list[Any]:
    found = value.get(key)
    if not isinstance(found, list) or not 0 < len(found) <= most:
        raise ValueError(f"`{key}` is not a list of 1 to {most} items")
    return found


def time_s(value: Mapping[str, Any], key: str) -> int:
    """Seconds since 1970, of a time in UTC."""
    found = text(value, key, 20)
    if not _TIME.fullmatch(found):
        raise ValueError(f"`{key}` is not a time such as 2026-01-31T12:00:00Z")
    return int(datetime.strptime(found, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC).timestamp())


def render_time(seconds: float) -> str:
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def check_schema(value: Mapping[str, Any]) -> None:
    if number(value, "schema") != 1:
        raise ValueError("it needs a newer version of torvyn")
