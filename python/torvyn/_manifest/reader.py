"""Reader: tables of a TOML tree -> records, as their tables require; collects problems.

It adds the type and the location of a value in the file to what `Key.check` says about it. In
strings `${VAR}` is a variable of the environment and `$$` a dollar sign; a dollar before any other
character is itself. Values from the environment are recorded, because they must never be printed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeVar

from torvyn._manifest import records
from torvyn._manifest.problems import Problems
from torvyn._manifest.records import PortRef
from torvyn._manifest.schema import BadValue, Key, Record, Table
from torvyn._manifest.toml_tree import Entry, Node, join
from torvyn.errors import Location, nearest, quoted, suggestion

R = TypeVar("R", bound=Record)

_JSON_KINDS: Final = ("string", "table", "array", "integer", "float", "boolean")
"""The kinds of TOML values that a config may be."""
_UNITS: Final = {"size": "B", "duration": "s"}
_ARTICLES: Final = {"integer": "an integer", "array": "an array"}
_EXPECTED: Final = {
    "boolean": "true or false",
    "integer": "an integer",
    "strings": "an array of strings",
    "amounts": "a table of numbers",
}
_MARK: Final = re.compile(r"\$(?:(?P<dollar>\$)|\{(?P<name>[^}]*)(?P<close>\}?))")
_VARIABLE_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


class Reader:
    """Reads the tables of one file. What is wrong becomes a problem and is left out."""

    def __init__(self, problems: Problems, environ: Mapping[str, str]) -> None:
        self.problems = problems
        self.variables: set[str] = set()
        """The names of the environment variables that the file uses."""
        self._environ = environ

    # Tables

    def record(self, table: Table, node: Node, kind: type[R], **extra: Any) -> R:
        """The table as its record."""
        if not self.is_table(node, node.location.path or table.header):
            return kind(location=node.location, **extra)
        locations = {entry.key: entry.node.location for entry in node.entries()}
        values = self._values(table, node)
        return kind(location=node.location, locations=locations, **values, **extra)

    def _values(self, table: Table, node: Node) -> dict[str, Any]:
        """The values of the table by attribute."""
        self._check_keys(table, node)
        values: dict[str, Any] = {}
        for entry in node.entries():
            key = table.key(entry.key)
            value = None if key is None else self.value(key, entry.node)
            if key is not None and value is not None:
                values[key.attribute] = value
        return values

    def is_table(self, node: Node, what: str) -> bool:
        if node.kind != "table":
            self.wrong_type(node, what, "a table")
        return node.kind == "table"

    def _check_keys(self, table: Table, node: Node) -> None:
        known = tuple(table.names())
        self.check_known(node, known, f"in `{_header(table, node)}`")
        misspelt = {nearest(name, known) for name in node.value if name not in known}
        for key in table.keys:
            # A misspelt key is one mistake, and its hint names the right one.
            if key.required and key.name not in node.value and key.name not in misspelt:
                path = join(node.location.path or "", key.name)
                location = Location(
                    node.location.file, node.location.line, node.location.column, path
                )
                message = f"`{key.name}` is missing in `{_header(table, node)}`"
                hint = f"add it: {key.meaning}"
                self.problems.add("manifest.missing-key", message, location, hint)

    def check_known(self, node: Node, known: tuple[str, ...], where: str) -> None:
        """Adds a problem for every key of the table that is not known."""
        for entry in node.entries():
            if entry.key not in known:
                removed = records.REMOVED.get(entry.location.path or "")
                hint = removed or suggestion(entry.key, known, f"the keys are {quoted(known)}")
                message = f"unknown key `{entry.key}` {where}"
                self.problems.add("manifest.unknown-key", message, entry.location, hint)

    def named_tables(self, entry: Entry, what: str) -> list[Entry]:
        """The tables in a table whose keys are names: valid in `node:port` and `node.key`."""
        if not self.is_table(entry.node, entry.location.path or what):
            return []
        return [item for item in entry.node.entries() if self._is_name(item)]

    def _is_name(self, entry: Entry) -> bool:
        return self._checked(_NAME, entry.key, entry.location) is not None

    def tables(self, entry: Entry, what: str, header: str) -> list[Node]:
        """The nodes of an array of tables."""
        if entry.node.kind != "array":
            hint = f"write `[[{header}]]` with two brackets"
            self.wrong_type(entry.node, what, "an array of tables", hint)
            return []
        nodes: list[Node] = entry.node.value
        return nodes

    # Values

    def value(self, key: Key, node: Node) -> Any:
        """The value of a key, or None."""
        if key.kind == "end":
            return self._end(key, node)
        if key.kind == "error":
            return self._error(key, node)
        if key.kind == "place":
            is_table = self.is_table(node, node.location.path or key.name)
            return self._values(records.PLACE, node) if is_table else None
        if key.kind == "config":
            return self._config(key, node)
        if key.kind == "amounts":
            return self._amounts(key, node)
        value = self._plain_value(key, node)
        return None if value is None else self._checked(key, value, node.location)

    def _checked(self, key: Key, value: Any, location: Location) -> Any:
        try:
            return key.check(value)
        except BadValue as error:
            self.problems.add(f"manifest.{error.code}", str(error), location, error.hint)
            return None

    def _plain_value(self, key: Key, node: Node) -> Any:
        """The Python value of a node that has the type of the key, or None."""
        if key.kind == "ratio" and node.kind in ("integer", "float"):
            return float(node.value)
        if key.kind in ("boolean", "integer") and node.kind == key.kind:
            return node.value
        if key.kind == "strings" and node.kind == "array":
            return self._texts(key.name, node.value)
        if key.kind in _UNITS and node.kind == "integer":
            hint = f'write `{key.name} = "{node.value}{_UNITS[key.kind]}"`'
            self.wrong_type(node, key.name, f"a {key.kind}", hint)
        elif key.kind in ("string", "name", "version", *_UNITS):
            return self.text(node, key.name)
        elif key.kind == "ratio":
            self.wrong_type(node, key.name, f"a number from 0 to {key.maximum:g}")
        else:
            advice = f"write `{key.name} = true`, without quotes"
            hints = {"boolean": advice}
            self.wrong_type(node, key.name, _EXPECTED[key.kind], hints.get(key.kind))
        return None

    def text(self, node: Node, what: str) -> str | None:
        """A string with its variables expanded."""
        if node.kind != "string":
            self.wrong_type(node, what, "a string")
            return None
        return self._expanded(node.value, node.location)

    def _texts(self, what: str, nodes: Iterable[Node]) -> tuple[str, ...]:
        texts = (self.text(item, what) for item in nodes)
        return tuple(text for text in texts if text is not None)

    def wrong_type(self, node: Node, what: str, expected: str, hint: str | None = None) -> None:
        got = _ARTICLES.get(node.kind, f"a {node.kind}")
        message = f"`{what}` is {got}, not {expected}"
        self.problems.add("manifest.wrong-type", message, node.location, hint)

    def _amounts(self, key: Key, node: Node) -> dict[str, float] | None:
        """Numbers by name."""
        if node.kind != "table":
            hint = "write `{ name = 1 }`"
            self.wrong_type(node, key.name, _EXPECTED[key.kind], hint)
            return None
        amounts: dict[str, float] = {}
        for entry in node.entries():
            amount, value = key.amount(entry.key), entry.node.value
            if entry.node.kind not in ("integer", "float"):
                self.wrong_type(entry.node, amount.name, "a number")
            elif self._checked(amount, value, entry.node.location) is not None:
                amounts[entry.key] = float(value)
        return amounts

    def _config(self, key: Key, node: Node) -> Any:
        if node.kind in _JSON_KINDS:
            return self._json(node)
        # Link knows the component, and says what it takes.
        self.wrong_type(node, key.name, "a string or a table", "write a date as a string")
        return None

    def _json(self, node: Node) -> Any:
        """The value as JSON data."""
        if node.kind == "string":
            return self.text(node, "config")
        if node.kind == "table":
            return {entry.key: self._json(entry.node) for entry in node.entries()}
        if node.kind == "array":
            return [self._json(item) for item in node.value]
        if node.kind == "float" and not math.isfinite(node.value):
            message = f"`{node.value}` cannot be written as JSON"
            hint = "write a finite number"
            self.problems.add("manifest.bad-value", message, node.location, hint)
            return None
        return node.value

    def _end(self, key: Key, node: Node) -> PortRef | None:
        if node.kind == "table":
            return PortRef(**self._values(records.END, node))
        if node.kind != "string":
            hint = f'write `{key.name} = "node:port"`'
            self.wrong_type(node, key.name, "`{ node, port }` or a string", hint)
            return None
        text = self.text(node, key.name)
        if text is None:
            return None
        end = PortRef.parse(text)
        if not end.node or (":" in text and not end.port):
            message = f"`{text}` is not a node or a node's port"
            hint = 'write `"node"` or `"node:port"`'
            self.problems.add("manifest.bad-value", message, node.location, hint)
            return None
        return end

    def _error(self, key: Key, node: Node) -> dict[str, Any] | None:
        if node.kind == "table":
            return self._values(records.ON_ERROR, node)
        if node.kind != "string":
            self.wrong_type(node, key.name, "a policy or a table")
            return None
        policy = self.value(records.ON_ERROR.by_name["policy"], node)
        return policy and {"policy": policy}

    # Variables

    def _expanded(self, text: str, location: Location) -> str | None:
        """The text with its variables expanded, or None and a problem."""
        if "$" not in text:
            return text
        values = [self._variable(match, location) for match in _MARK.finditer(text)]
        if None in values:
            return None
        left = iter(values)
        return _MARK.sub(lambda _: next(left) or "", text)

    def _variable(self, match: re.Match[str], location: Location) -> str | None:
        if match["dollar"]:
            return "$"
        name = match["name"]
        if not match["close"] or not _VARIABLE_NAME.fullmatch(name):
            message = f"`{match[0]}` is not a variable"
            hint = "write `${NAME}`, or `$$` for a dollar sign"
            self.problems.add("manifest.bad-substitution", message, location, hint)
            return None
        self.variables.add(name)
        value = self._environ.get(name)
        if value is None:
            message = f"the environment variable `{name}` is not set"
            meant = suggestion(name, self._environ, f"set it: export {name}=...")
            self.problems.add("manifest.variable-undefined", message, location, meant)
        elif not _is_text(value):
            message = f"the environment variable `{name}` is not UTF-8"
            self.problems.add("manifest.bad-substitution", message, location)
            return None
        elif value:
            self.problems.secrets.add(value)
        return value


_NAME: Final = Key("name", "name", "The name of a flow, a node or a component.")


def _header(table: Table, node: Node) -> str:
    """The header as it is in the file: `[flow.main]`, not `[flow.NAME]`."""
    path = node.location.path
    if path is None or not table.header.startswith("["):
        return table.header
    return f"[[{path.rpartition('[')[0]}]]" if path.endswith("]") else f"[{path}]"


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def escape(text: str) -> str:
    """The text, escaped so that a Reader returns it unchanged."""
    return text.replace("$", "$$")
