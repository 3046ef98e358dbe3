"""TOML text -> a tree whose nodes have a file:line:column and a path.

A path looks like `flow.main.edges[2].from`. The meaning of keys is not known here.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torvyn._manifest.problems import Problems
from torvyn.errors import Location


@dataclass(frozen=True, slots=True)
class Node:
    """A TOML value. A table maps keys to `Entry`, an array is a list of nodes."""

    kind: str
    """`string`, `integer`, `float`, `boolean`, `datetime`, `array` or `table`."""
    value: Any
    location: Location

    def entries(self) -> Iterator[Entry]:
        yield from self.value.values()


@dataclass(frozen=True, slots=True)
class Entry:
    key: str
    location: Location
    """The location of the key; that of the value is `node.location`."""
    node: Node


def parse_tree(text: str, file: str, problems: Problems) -> Node | None:
    """The tree, or None and a problem when the text is not TOML."""
    from torvyn._native import FileParser, NativeError

    try:
        raw = FileParser.toml(text)
    except UnicodeEncodeError as error:
        location = Location(file, *_Text(text[: error.start]).end())
        problems.add("manifest.not-utf8", "the text has a lone surrogate", location)
    except NativeError as error:
        kind, message, start, _ = error.args
        _complain(problems, kind, message, Location(file, *_Text(text).position(start)))
    else:
        return _Builder(_Text(text), file).node(raw, "")
    return None


def _complain(problems: Problems, kind: str, message: str, location: Location) -> None:
    if kind == "too-deep":
        hint = "the keys of Torvyn.toml need only a few levels"
        problems.add("manifest.too-deep", "tables or arrays are nested too deeply", location, hint)
        return
    problem, _, expected = message.partition(", expected ")
    advice = _HINTS.get(problem) or (f"expected {expected}" if expected else None)
    problems.add("manifest.syntax", f"invalid TOML: {problem}", location, advice)


_HINTS = {
    "duplicate key": "write every key and every table header only once",
    "string values must be quoted": 'write texts in quotes, such as `component = "console"`',
}


class _Text:
    """Converts byte offsets to lines and columns, which start at 1. Columns count characters."""

    def __init__(self, text: str) -> None:
        self._bytes = text.encode(errors="replace")
        self._starts = [0, *(found.end() for found in re.finditer(b"\n", self._bytes))]
        self._last = (0, 1)

    def position(self, offset: int) -> tuple[int, int]:
        line = bisect.bisect_right(self._starts, offset)
        # Continues from the last position if possible: a file may be one very long line.
        start, column = self._last
        if not self._starts[line - 1] <= start <= offset:
            start, column = self._starts[line - 1], 1
        column += len(self._bytes[start:offset].decode(errors="replace"))
        self._last = (offset, column)
        return line, column

    def end(self) -> tuple[int, int]:
        return self.position(len(self._bytes))


class _Builder:
    def __init__(self, text: _Text, file: str) -> None:
        self._text = text
        self._file = file

    def node(self, raw: tuple[str, int, int, Any], path: str) -> Node:
        kind, start, _, value = raw
        location = self._at(start, path)
        if kind == "table":
            value = {entry[0]: self._entry(entry, path) for entry in value}
        elif kind == "array":
            value = [self.node(item, f"{path}[{index}]") for index, item in enumerate(value)]
        return Node(kind, value, location)

    def _entry(self, raw: tuple[str, int, int, Any], path: str) -> Entry:
        key, start, _, node = raw
        inside = join(path, key)
        location = self._at(start, inside)
        return Entry(key, location, self.node(node, inside))

    def _at(self, offset: int, path: str) -> Location:
        return Location(self._file, *self._text.position(offset), path or None)


def join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key
