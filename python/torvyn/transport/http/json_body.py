"""JSON in request bodies and messages: parsed within limits, rejected with a reason."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from torvyn.transport.rejection import Rejection

MAX_DEPTH: Final = 64
"""Levels of nesting in a body. The schemas of tools are nested, but not this deep."""
_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")
_EXAMPLE: Final = 'for example {"prompt": "Hello"}'


def parse_object(data: bytes, what: str = "body", example: str = _EXAMPLE) -> dict[str, Any]:
    """The JSON object in the bytes. Raises a rejection, whose hint is the example."""
    value = parse_json(data, what, example)
    if not isinstance(value, dict):
        message = f"the {what} is a JSON {type(value).__name__}, not an object"
        raise Rejection(400, "transport.bad-json", message, hint=example)
    return value


def parse_json(data: bytes, what: str, example: str = _EXAMPLE) -> Any:
    """The JSON value in the bytes, of limited depth. Raises a rejection."""
    try:
        value = _DECODER.decode(data.decode())
    except RecursionError:
        raise _too_deep(what) from None
    except ValueError as error:
        where = f": {error}" if isinstance(error, json.JSONDecodeError) else ""
        message = f"the {what} is not valid JSON{where}"
        raise Rejection(400, "transport.bad-json", message, hint=example) from None
    may_be_deep = data.count(b"{") + data.count(b"[") > MAX_DEPTH
    if may_be_deep and _is_deeper_than(MAX_DEPTH, value):
        raise _too_deep(what)
    if _SURROGATE.search(data) is not None and not _is_encodable(value):
        message = f"the {what} contains half of a surrogate pair"
        raise Rejection(400, "transport.bad-json", message)
    return value


def _is_encodable(value: Any) -> bool:
    """Whether all of its strings are valid: JSON's escapes can contain half a surrogate pair."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_deeper_than(limit: int, value: Any) -> bool:
    level = [value]
    for _ in range(limit):
        inner: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                inner += item.values()
            elif isinstance(item, list):
                inner += item
        if not inner:
            return False
        level = inner
    return any(isinstance(item, (dict, list)) for item in level)


def _reject_constant(text: str) -> Any:
    raise ValueError(f"{text} is not a number in JSON")


_DECODER: Final = json.JSONDecoder(parse_constant=_reject_constant)


def _too_deep(what: str) -> Rejection:
    message = f"the {what} has more than {MAX_DEPTH} levels of nesting"
    return Rejection(400, "transport.json-too-deep", message)
