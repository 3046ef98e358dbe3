"""Keys and tables: what the schema of the manifest is written in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from torvyn.manifest import records

KiB, MiB = 1024, 1024 * 1024
_MANY = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Key:
    """One key of one table."""

    name: str
    kind: str
    """`string`, `name`, `version`, `integer`, `boolean`, `ratio`, `size`, `duration`, `strings`,
    `config`, `end` or `error`: the name of its reader."""
    doc: str
    required: bool = False
    default: Any = None
    default_doc: str | None = None
    """What the default is in words, when the value does not say it."""
    choices: tuple[str, ...] = ()
    aliases: tuple[tuple[str, str], ...] = ()
    """Other spellings that are read as a choice."""
    unsupported: tuple[str, ...] = ()
    """Values that are right but that this build does not run."""
    minimum: float = 0
    maximum: float = _MANY
    attribute: str = ""
    """The record's attribute, where `name` cannot be one."""

    @property
    def field(self) -> str:
        return self.attribute or self.name


@dataclass(frozen=True, slots=True)
class Table:
    """One kind of table: its header as it is written, its keys and the record it becomes."""

    header: str
    doc: str
    keys: tuple[Key, ...]
    record: type[records.Record]
    tables: tuple[str, ...] = ()
    """Keys that hold further tables, parsed on their own."""
    by_name: dict[str, Key] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_name", {key.name: key for key in self.keys})

    def key(self, name: str) -> Key | None:
        return self.by_name.get(name)

    def names(self) -> Iterator[str]:
        yield from (key.name for key in self.keys)
        yield from self.tables


def size(name: str, doc: str, default: Any = None, words: str | None = None) -> Key:
    return Key(name, "size", doc, default=default, default_doc=words, minimum=1, maximum=2**50)


def duration(name: str, doc: str, default: Any = None, words: str | None = None) -> Key:
    return Key(name, "duration", doc, default=default, default_doc=words, minimum=1e-9)
