"""Reads the key of an element: a field of its JSON object, an attribute, or the result of a call.

A key is text. Other values become their JSON: 7 and "7" are the same key. A Plan keeps a key as it
was written, so that it can be pickled; whoever runs the node, or sends to it, makes the function.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from torvyn._contract.element import Element
from torvyn._native import text_field
from torvyn.components.json_fields import (
    MISSING,
    get_field,
    read_object,
    to_json_value,
    write_json,
)
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
    what = f"the key field `{key}`"
    if simple_field(key) is None:
        return lambda element: _text(get_field(read_object(element), key), what)

    def read(element: Element) -> str:
        found = text_field(element, key)
        return _text(read_object(element).get(key, MISSING), what) if found is None else found

    return read


def simple_field(key: str | KeyFunction) -> str | None:
    """The key, if it is a field at the top of a JSON object: native code finds it in most."""
    is_simple = isinstance(key, str) and not key.startswith(_ATTRIBUTE) and "." not in key
    return str(key) if is_simple else None


def _text(value: Any, what: str) -> str:
    if type(value) is str:
        return value
    if value is MISSING or value is None:
        raise InvalidInput(f"{what} is missing")
    return write_json(to_json_value(value))
