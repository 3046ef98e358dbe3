"""Key and Table: the types that the schema of the manifest consists of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

KiB, MiB = 1024, 1024 * 1024
_MANY = 2**31 - 1


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
