"""Key, Table and Record: what the schema of the manifest consists of, and the check of a value.

The parser has checked the values of a file already; values from a program are checked here first.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from torvyn._contract.units import parse_duration_s, parse_size_bytes
from torvyn._manifest.problems import Problems
from torvyn.errors import Location, nearest, quoted, suggestion

KiB, MiB = 1024, 1024 * 1024
_MANY = 2**31 - 1


@dataclass(slots=True, kw_only=True)
class Record:
    location: Location | None = field(default=None, compare=False, repr=False)
    locations: Mapping[str, Location] = field(default_factory=dict, compare=False, repr=False)
    """The locations of the values, by the key in the file."""

    def at(self, key: str) -> Location | None:
        """The location of the key's value, else that of the record."""
        return self.locations.get(key, self.location)


@dataclass(frozen=True, slots=True)
class Key:
    """One key of one table."""

    name: str
    kind: str
    """`string`, `name`, `version`, `integer`, `boolean`, `ratio`, `size`, `duration`, `strings`,
    `config`, `amounts`, `end`, `error` or `place`: the type of the value."""
    doc: str
    required: bool = False
    default: Any = None
    default_doc: str | None = None
    """The default in words, when the value alone is not clear."""
    choices: tuple[str, ...] = ()
    aliases: tuple[tuple[str, str], ...] = ()
    """Other spellings of the choices."""
    unsupported: tuple[str, ...] = ()
    """Valid values that this build does not support."""
    minimum: float = 0
    maximum: float = _MANY
    attribute: str = ""
    """The record's attribute, by default `name`. Attributes name their units."""

    def __post_init__(self) -> None:
        if not self.attribute:
            object.__setattr__(self, "attribute", self.name)

    @property
    def meaning(self) -> str:
        """`doc` as a part of a sentence: `write ...`."""
        return f"{self.doc[0].lower()}{self.doc[1:].rstrip('.')}"


@dataclass(frozen=True, slots=True)
class Table:
    """One kind of table: its header in the file, its keys and the type of its record."""

    header: str
    doc: str
    keys: tuple[Key, ...]
    record: type[Any]
    tables: tuple[str, ...] = ()
    """Keys that hold tables of their own."""
    by_name: dict[str, Key] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_name", {key.name: key for key in self.keys})

    def key(self, name: str) -> Key | None:
        return self.by_name.get(name)

    def names(self) -> Iterator[str]:
        yield from (key.name for key in self.keys)
        yield from self.tables

    def default(self, name: str) -> Any:
        """The only definition of the key's default."""
        return self.by_name[name].default


def size(name: str, doc: str, default: Any = None, words: str | None = None) -> Key:
    attribute = name if name.endswith("_bytes") else f"{name}_bytes"
    key = Key(name, "size", doc, default=default, default_doc=words, attribute=attribute)
    return replace(key, minimum=1, maximum=2**50)


def duration(name: str, doc: str, default: Any = None, words: str | None = None) -> Key:
    key = Key(name, "duration", doc, default=default, default_doc=words, attribute=f"{name}_s")
    return replace(key, minimum=1e-9)


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
