"""Fields of JSON objects: reading an element as one, dotted paths into it, and writing it back.

A path such as `user.id` names a field of a nested object; a field whose own name is the whole path
comes first. What is not JSON is the element's fault: `InvalidInput`, never a crash.
"""

from __future__ import annotations

import json
import math
from typing import Any, Final

from torvyn.contract import Element
from torvyn.errors import InvalidInput

JSON_TYPE: Final = "application/json"
MISSING: Final = object()


def read_json(text: str) -> Any:
    """The value that the text spells; strict, without NaN and Infinity."""
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno} column {error.colno}"
        raise InvalidInput(f"not JSON: {error.msg} at {place} of {_short(text)}") from error
    except RecursionError as error:
        raise InvalidInput(f"not usable JSON: nested too deeply: {_short(text)}") from error
    except ValueError as error:
        raise InvalidInput(f"not usable JSON: {error}: {_short(text)}") from error


def read_object(element: Element) -> dict[str, Any]:
    """The element as a JSON object."""
    text = element.text
    value = read_json(text)
    if not isinstance(value, dict):
        raise InvalidInput(f"a JSON object was expected, not {_kind(value)}: {_short(text)}")
    return value


def write_json(value: Any) -> str:
    """Compact JSON, readable where UTF-8 can carry it."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except ValueError as error:
        raise InvalidInput(f"the result cannot be written as JSON: {error}") from error
    try:
        text.encode()
    except UnicodeEncodeError:
        # A lone half of a surrogate pair is legal as a JSON escape and as nothing else.
        return json.dumps(value, allow_nan=False, separators=(",", ":"))
    return text


def plain(value: Any) -> Any:
    """Any value as something JSON can carry: NaN becomes null, a strange object its text."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, (str, int)):
        return value
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
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


def put_field(record: dict[str, Any], path: str, value: Any) -> None:
    """Set the value at the path, making the objects on the way; what is in the way is replaced."""
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


def take_field(record: dict[str, Any], path: str) -> Any:
    """Remove the field at the path and return its value, or `MISSING`."""
    if path in record:
        return record.pop(path)
    *parents, last = path.split(".")
    value: Any = record
    for name in parents:
        value = value.get(name) if isinstance(value, dict) else None
    return value.pop(last, MISSING) if isinstance(value, dict) else MISSING


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    names = {bool: "a boolean", int: "a number", float: "a number", str: "a string", list: "a list"}
    return names.get(type(value), type(value).__name__)


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "...")
