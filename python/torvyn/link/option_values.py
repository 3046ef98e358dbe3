"""Values of records, checked against the manifest's schema.

The parser has checked the values of a file already; values from a program are checked here first.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from torvyn.contract.units import parse_duration_s, parse_size_bytes
from torvyn.errors import Location
from torvyn.manifest.problems import Problems, nearest, quoted, suggestion
from torvyn.manifest.records import Record
from torvyn.manifest.schema.keys import Key, Table


def place_of(record: Record, key: str, path: str) -> Location:
    """The location of the key in the file; in a program only its path is known."""
    if key in record.locations:
        return record.locations[key]
    place = record.location
    if place is None:
        return Location(path=path)
    return Location(place.file, place.line, place.column, path)


def value_of(table: Table, name: str, record: Record, path: str, problems: Problems) -> Any:
    """The value of the key, or None when it is missing or wrong."""
    key = table.by_name[name]
    value = getattr(record, key.attribute)
    if value is None:
        return None
    try:
        return check_value(key, value)
    except ValueError as error:
        message, *hint = error.args
        place = place_of(record, name, f"{path}.{name}")
        problems.add("link.bad-value", f"`{name}` {message}", place, *hint)
        return None


def table_values(
    table: Table,
    option: Mapping[str, Any],
    code: str,
    place: Location | None,
    problems: Problems,
) -> dict[str, Any]:
    """The values of an option that is a table, with defaults; None for those that are wrong."""
    known = tuple(table.names())
    for name in option:
        if name not in known:
            hint = suggestion(str(name), known, f"its keys are {quoted(known)}")
            problems.add(code, f"`{table.header}` has no key `{name}`", place, hint)
    values: dict[str, Any] = {}
    for key in table.keys:
        values[key.name] = key.default
        try:
            if option.get(key.name) is not None:
                values[key.name] = check_value(key, option[key.name])
        except ValueError as error:
            message, *hints = error.args
            problems.add(code, f"`{key.name}` of `{table.header}` {message}", place, *hints)
            values[key.name] = None
    return values


def check_value(key: Key, value: Any) -> Any:
    """The value as its key requires it; raises `ValueError` with a message and perhaps a hint."""
    if key.choices:
        return _choice(key, value)
    if key.kind == "string":
        if not isinstance(value, str):
            raise ValueError(f"is {value!r}, not a string")
        return value
    if key.kind == "boolean":
        if not isinstance(value, bool):
            raise ValueError(f"is {value!r}, not true or false")
        return value
    if key.kind == "strings":
        if isinstance(value, str) or not all(isinstance(item, str) for item in value):
            raise ValueError(f"is {value!r}, not a list of strings")
        return tuple(value)
    if key.kind == "amounts":
        return _amounts(value)
    return _number(key, value)


def _amounts(value: Any) -> dict[str, float]:
    if not isinstance(value, Mapping):
        raise ValueError(f"is {value!r}, not a table of numbers")
    for name, amount in value.items():
        is_number = isinstance(amount, (int, float)) and not isinstance(amount, bool)
        if not isinstance(name, str) or not is_number or not 0 < amount < math.inf:
            raise ValueError(f"has `{name} = {amount!r}`, which is not a number above 0")
    return dict(value)


def _number(key: Key, value: Any) -> float:
    if key.kind == "size":
        value = parse_size_bytes(value)
    elif key.kind == "duration":
        value = parse_duration_s(value)
    types = (int,) if key.kind == "integer" else (int, float)
    if isinstance(value, bool) or not isinstance(value, types) or not math.isfinite(value):
        expected = "an integer" if key.kind == "integer" else "a number"
        raise ValueError(f"is {value!r}, not {expected}")
    if not key.minimum <= value <= key.maximum:
        raise ValueError(f"is {value:g}; it must be from {key.minimum:g} to {key.maximum:g}")
    return value


def _choice(key: Key, value: Any) -> str:
    value = dict(key.aliases).get(value, value)
    if isinstance(value, str) and value in key.choices:
        return value
    hint = suggestion(str(value), key.choices, f"it must be {quoted(key.choices, 'or')}")
    raise ValueError(f"cannot be {value!r}", hint)


def near(name: str, known: Any, listing: str) -> str:
    """`listing`, with the name that was probably meant."""
    close = nearest(name, known)
    return f"{listing}; did you mean `{close}`?" if close else listing
