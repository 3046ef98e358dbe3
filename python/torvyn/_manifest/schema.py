"""Key, Table and Record: the schema of a manifest, written at the fields of its records.

A field of a record carries its key: `queue_depth: int | None = key_field("integer", ...)`. The
table follows from the record, and everything else from the table: parser, hints, renderer, JSON
Schema, the reference page, settings. Values of a file and of a program pass the same `Key.check`.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any, Final, overload

from torvyn._contract.units import parse_duration_s, parse_size_bytes, render_duration, render_size
from torvyn._manifest.problems import Problems
from torvyn.errors import Location, quoted, suggestion

KiB, MiB = 1024, 1024 * 1024
NAME_PATTERN: Final = r"^\w[\w-]*$"
VERSION_PATTERN: Final = r"^[0-9]+\.[0-9]+\.[0-9]+([-+][0-9A-Za-z.+-]+)?$"
_SUFFIXES: Final = {"size": "_bytes", "duration": "_s"}
_NAME = re.compile(r"\w[\w-]*")
_VERSION = re.compile(VERSION_PATTERN, re.ASCII)


class BadValue(ValueError):
    """A value that its key does not allow. It knows no location: the caller adds it.

    `code` is the last part of the error code for files; link has one code for all of them.
    """

    def __init__(self, message: str, hint: str | None = None, code: str = "bad-value") -> None:
        super().__init__(message)
        self.hint = hint
        self.code = code


@dataclass(slots=True, kw_only=True)
class Record:
    location: Location | None = field(default=None, compare=False, repr=False)
    locations: Mapping[str, Location] = field(default_factory=dict, compare=False, repr=False)
    """The locations of the values, by the key in the file."""

    @overload
    def at(self, key: str) -> Location | None: ...
    @overload
    def at(self, key: str, path: str) -> Location: ...

    def at(self, key: str, path: str | None = None) -> Location | None:
        """The location of the key's value, else that of the record, with the path if there is one:
        all that is known of a record from a program."""
        if key in self.locations or path is None:
            return self.locations.get(key, self.location)
        location = self.location or Location()
        return Location(location.file, location.line, location.column, path)


@dataclass(frozen=True, slots=True)
class Key:
    """One key of one table."""

    name: str
    """The name in the file, by default the attribute's without its unit."""
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
    maximum: float = 2**31 - 1
    attribute: str = ""
    """The record's attribute, by default `name`. Attributes name their units."""

    def __post_init__(self) -> None:
        if not self.attribute:
            object.__setattr__(self, "attribute", self.name)
        elif not self.name:
            name = self.attribute.removesuffix(_SUFFIXES.get(self.kind, ""))
            object.__setattr__(self, "name", name)

    @property
    def meaning(self) -> str:
        """`doc` as a part of a sentence: `write ...`."""
        return f"{self.doc[0].lower()}{self.doc[1:].rstrip('.')}"

    def field(self, **changes: Any) -> Any:
        """A record's field with this key, which records share. `changes` are the attributes of the
        key that differ in this record."""
        return field(default=None, metadata={"key": partial(replace, self, **changes)})

    def check(self, value: Any) -> Any:
        """The value of a program, or of a file whose variables are expanded, as the key has it;
        raises `BadValue`. Records in values (`end`, `error`, `place`) and configs pass as they are:
        link checks them."""
        if self.kind in ("string", "name", "version"):
            return self._text(value)
        if self.kind in ("size", "duration"):
            return self._in_range(self._quantity(value))
        if self.kind in ("integer", "ratio"):
            return self._in_range(self._number(value))
        if self.kind == "boolean" and not isinstance(value, bool):
            raise BadValue(f"`{self.name}` is {value!r}, not true or false")
        if self.kind == "strings":
            if isinstance(value, str) or not all(isinstance(item, str) for item in value):
                raise BadValue(f"`{self.name}` is {value!r}, not a list of strings")
            return tuple(value)
        if self.kind == "amounts":
            if not isinstance(value, Mapping):
                raise BadValue(f"`{self.name}` is {value!r}, not a table of numbers")
            return {name: self.amount(name).check(item) for name, item in value.items()}
        return value

    def amount(self, name: str) -> Key:
        """The key of one number of `amounts`."""
        return Key(
            f"{self.name}.{name}", "ratio", self.doc, minimum=5e-324, maximum=sys.float_info.max
        )

    def _text(self, value: Any) -> str:
        if not isinstance(value, str):
            raise BadValue(f"`{self.name}` is {value!r}, not a string")
        if self.kind == "name" and not _NAME.fullmatch(value):
            hint = "use letters, digits, `_` and `-`"
            raise BadValue(f"`{value}` is not a valid name", hint, "bad-name")
        if self.kind == "version":
            self._check_version(value)
        if self.kind == "string" and self.required and not value:
            raise BadValue(f"`{self.name}` is empty", f"write {self.meaning}")
        return self._choice(value) if self.kind == "string" and self.choices else value

    def _choice(self, text: str) -> str:
        text = dict(self.aliases).get(text, text)
        if text in self.choices:
            return text
        if text in self.unsupported:
            message = f'`{self.name} = "{text}"` is not supported by this build'
            raise BadValue(message, f"this build supports {quoted(self.choices)}", "unsupported")
        hint = suggestion(text, self.choices, f"it must be {quoted(self.choices, 'or')}")
        raise BadValue(f"`{text}` is not a value of `{self.name}`", hint)

    def _check_version(self, text: str) -> None:
        if not _VERSION.fullmatch(text):
            raise BadValue(f"`{text}` is not a version", 'write it as "1.2.3"')
        if self.choices and text not in self.choices:
            message = f"contract version `{text}` is not supported by this build"
            raise BadValue(message, f"this build supports {quoted(self.choices)}", "unsupported")

    def _quantity(self, value: Any) -> float:
        parse = parse_size_bytes if self.kind == "size" else parse_duration_s
        try:
            return parse(value)
        except ValueError as error:
            message = f"`{value}` is not a {self.kind}"
            raise BadValue(message, str(error), f"bad-{self.kind}") from None

    def _number(self, value: Any) -> float:
        types = (int,) if self.kind == "integer" else (int, float)
        is_number = isinstance(value, types) and not isinstance(value, bool)
        if not is_number or (isinstance(value, float) and math.isnan(value)):
            expected = "an integer" if self.kind == "integer" else "a number"
            raise BadValue(f"`{self.name}` is {value!r}, not {expected}")
        return value  # type: ignore[no-any-return]

    def _in_range(self, value: float) -> float:
        if self.minimum <= value <= self.maximum:
            return value
        render = {"size": render_size, "duration": render_duration}.get(self.kind, _render_number)
        limit = f"at most {render(self.maximum)}"
        if value < self.minimum:
            is_above_0 = 0 < self.minimum < 1
            limit = "more than 0" if is_above_0 else f"at least {render(self.minimum)}"
        raise BadValue(f"`{self.name}` is {render(value)}; it must be {limit}")


def _render_number(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:g}"


def key_field(kind: str, doc: str, *, missing: Any = None, name: str = "", **options: Any) -> Any:
    """A record's field with a key of its own, `missing` until somebody writes it. The options are
    those of `Key`. The key is made when the record's attribute is known, in `Table.of`."""
    key = partial(Key, name, kind, doc, **{**_LIMITS.get(kind, {}), **options})
    return field(default=missing, metadata={"key": key})


_LIMITS: Final[dict[str, dict[str, Any]]] = {
    "size": {"minimum": 1, "maximum": 2**50},
    "duration": {"minimum": 1e-9},
}
"""The limits of quantities that have none of their own."""


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

    @classmethod
    def of(cls, record: type[Record], header: str, doc: str, tables: tuple[str, ...] = ()) -> Table:
        """The table of a record whose fields carry their keys."""
        keys = (
            each.metadata["key"](attribute=each.name)
            for each in fields(record)
            if "key" in each.metadata
        )
        return cls(header, doc, tuple(keys), record, tables)

    def key(self, name: str) -> Key | None:
        return self.by_name.get(name)

    def names(self) -> Iterator[str]:
        yield from self.by_name
        yield from self.tables

    def default(self, name: str) -> Any:
        """The only definition of the key's default."""
        return self.by_name[name].default

    def value(self, record: Record, name: str, path: str, problems: Problems) -> Any:
        """The record's value of the key; None when it is missing, or wrong: a problem at its
        location, or at the path in a program."""
        key = self.by_name[name]
        value = getattr(record, key.attribute)
        try:
            return None if value is None else key.check(value)
        except BadValue as error:
            location = record.at(name, f"{path}.{name}")
            problems.add("link.bad-value", str(error), location, error.hint)
            return None

    def values(
        self, option: Mapping[str, Any], code: str, location: Location | None, problems: Problems
    ) -> dict[str, Any]:
        """The values of an option that is a table, with defaults; None for those that are wrong,
        which are problems with this code."""
        known = tuple(self.names())
        for name in option:
            if name not in known:
                hint = suggestion(str(name), known, f"its keys are {quoted(known)}")
                problems.add(code, f"`{self.header}` has no key `{name}`", location, hint)
        values: dict[str, Any] = {}
        for key in self.keys:
            value = option.get(key.name)
            try:
                values[key.name] = key.default if value is None else key.check(value)
            except BadValue as error:
                values[key.name] = None
                problems.add(code, str(error), _inside(location, key.name), error.hint)
        return values


def _inside(location: Location | None, key: str) -> Location | None:
    if location is None or location.path is None:
        return location
    return replace(location, path=f"{location.path}.{key}")
