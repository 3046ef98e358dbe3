"""Reads the key of an element: a field of its JSON object, an attribute, or the result of a call.

A key is text. Other values become their JSON: 7 and "7" are the same key.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from torvyn.components.json_fields import (
    MISSING,
    get_field,
    read_object,
    to_json_value,
    write_json,
)
from torvyn.contract import Element
from torvyn.errors import InvalidInput

_ATTRIBUTE: Final = "attribute:"

KeyFunction = Callable[[Element], Any]


def key_reader(key: str | KeyFunction) -> Callable[[Element], str]:
    """The function that reads the key of an element; it raises `InvalidInput`."""
    if not isinstance(key, str):
        function = key
        return lambda element: _text(function(element), "the key function")
    if key.startswith(_ATTRIBUTE):
        name = key.removeprefix(_ATTRIBUTE)
        return lambda element: _text(element.attributes.get(name, MISSING), f"attribute `{name}`")
    place = f"the key field `{key}`"
    if "." in key:
        return lambda element: _text(get_field(read_object(element), key), place)
    return lambda element: _text(read_object(element).get(key, MISSING), place)


def _text(value: Any, place: str) -> str:
    if type(value) is str:
        return value
    if value is MISSING or value is None:
        raise InvalidInput(f"{place} is missing")
    return write_json(to_json_value(value))
