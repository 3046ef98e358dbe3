"""Reads elements as JSON objects, gets and sets their fields by dotted path, and writes JSON.

The path `user.id` names a field of a nested object, unless a field has that whole name. An element
that is not JSON raises `InvalidInput`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any, Final

from torvyn._contract.element import Element
from torvyn.components.spec import Option
from torvyn.errors import InvalidInput

JSON_TYPE: Final = "application/json"
MISSING: Final = object()

EXTRA: Final = Option(
    "extra",
    "choice",
    "reject",
    "For objects with fields that are not columns: `reject` them, or `ignore` those fields.",
    choices=("reject", "ignore"),
)
"""The option of sinks that store objects as rows."""


def _reject_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


# Built once: `json.loads` and `json.dumps` with options build one per call, at half of their cost.
_DECODER: Final = json.JSONDecoder(parse_constant=_reject_constant)
_SCAN: Final[Any] = _DECODER.scan_once  # type: ignore[attr-defined]
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_ASCII_ENCODER: Final = json.JSONEncoder(allow_nan=False, separators=(",", ":"))


def _decode(text: str) -> Any:
    try:
        # Nearly every text is one value without white space around it; then no search is needed.
        value, end = _SCAN(text, 0)
        if end == len(text):
            return value
    except StopIteration:
        pass
    return _DECODER.decode(text)


def parse_json(text: str) -> Any:
    """Parses JSON; NaN and Infinity are errors."""
    try:
        return _decode(text)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno} column {error.colno}"
        reason = "a byte order mark" if text.startswith("\ufeff") else error.msg
        raise InvalidInput(f"not valid JSON: {reason} at {place} of {_short(text)}") from error
    except RecursionError as error:
        raise InvalidInput(f"not valid JSON: nested too deeply: {_short(text)}") from error
    except ValueError as error:
        raise InvalidInput(f"not valid JSON: {error}: {_short(text)}") from error


def parse_object(element: Element) -> dict[str, Any]:
    """The element as a JSON object."""
    text = element.text
    value = parse_json(text)
    if not isinstance(value, dict):
        raise InvalidInput(f"expected a JSON object, not {_kind(value)}: {_short(text)}")
    return value


_last_read: tuple[object, dict[str, Any]] = (None, {})


def read_object(element: Element) -> dict[str, Any]:
    """Like `parse_object`, for callers that do not change the object. An element that is read
    several times in a row, by a node's `key` and by its component, is parsed once."""
    global _last_read
    # One tuple, so that another thread never sees the object of another element.
    last, record = _last_read
    if last is element:
        return record
    record = parse_object(element)
    _last_read = element, record
    return record


def write_json(value: Any) -> str:
    """Compact JSON, without escapes where UTF-8 can encode the text."""
    try:
        text = _ENCODER.encode(value)
    except ValueError as error:
        raise InvalidInput(f"the result cannot be written as JSON: {error}") from error
    try:
        text.encode()
    except UnicodeEncodeError:
        # Half of a surrogate pair is valid only as a JSON escape.
        return _ASCII_ENCODER.encode(value)
    return text


def to_json_value(value: Any) -> Any:
    """Any value as a JSON value: NaN becomes null, an object of another type its text."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, (str, int)):
        return value
    if isinstance(value, dict):
        return {str(key): to_json_value(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json_value(item) for item in value]
    return str(value)


def get_field(record: Any, path: str) -> Any:
    """The value at the path, or `MISSING`."""
    if isinstance(record, dict) and path in record:
        return record[path]
    value = record
    for name in path.split("."):
        if not isinstance(value, dict) or name not in value:
            return MISSING
        value = value[name]
    return value


def set_field(record: dict[str, Any], path: str, value: Any) -> None:
    """Sets the value at the path. Objects on the way are created, other values replaced."""
    if path in record:
        record[path] = value
        return
    *parents, last = path.split(".")
    for name in parents:
        inner = record.get(name)
        if not isinstance(inner, dict):
            inner = record[name] = {}
        record = inner
    record[last] = value


def pop_field(record: dict[str, Any], path: str) -> Any:
    """Removes the field at the path and returns its value, or `MISSING`."""
    if path in record:
        return record.pop(path)
    *parents, last = path.split(".")
    value: Any = record
    for name in parents:
        value = value.get(name) if isinstance(value, dict) else None
    return value.pop(last, MISSING) if isinstance(value, dict) else MISSING


def reject_extra(record: dict[str, Any], columns: Sequence[str], target: str) -> None:
    """Raises `InvalidInput` for a field that no column takes."""
    # A column may name a nested field, so only the first part must be known.
    known = {*columns, *(column.split(".")[0] for column in columns)}
    extra = next((name for name in record if name not in known), None)
    if extra is not None:
        raise InvalidInput(
            f"the field {extra!r} is not a column of {target}",
            hint='add it to `columns`, or set `extra = "ignore"`',
        )


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    names = {bool: "a boolean", int: "a number", float: "a number", str: "a string", list: "a list"}
    return names.get(type(value), type(value).__name__)


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "...")
