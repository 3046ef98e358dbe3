"""Torvyn.toml text -> Manifest, with file:line:column for every problem.

`read` and `parse` raise one `ManifestError` for all problems. `parse_leniently` returns what it can
read and collects problems, so that link can add its own and you see all of them in one run.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from torvyn._manifest import records, setting_records
from torvyn._manifest.problems import Problems
from torvyn._manifest.reader import Values, Variables
from torvyn._manifest.records import (
    ComponentRecord,
    EdgeRecord,
    FlowRecord,
    Manifest,
    NodeRecord,
    PortRef,
)
from torvyn._manifest.schema import Key, Record, Table
from torvyn._manifest.setting_records import GrantRecord, SecurityRecord, ServeRecord
from torvyn._manifest.toml_tree import Entry, Node, join, parse_tree
from torvyn.errors import Location, ManifestError, nearest, os_reason, quoted, suggestion

R = TypeVar("R", bound=Record)

LARGEST_BYTES: Final = 4 << 20
"""The largest manifest. Reading a device would never end."""


def read(path: str | Path, *, environ: Mapping[str, str] | None = None) -> Manifest:
    """The manifest in a file. Messages show the path as you wrote it."""
    problems = Problems()
    text = read_text(path, problems)
    manifest = Manifest()
    if text is not None:
        manifest = parse_leniently(text, problems, file=str(path), environ=environ)
    raise_if_any(problems)
    return manifest


def parse(
    text: str, file: str = "Torvyn.toml", *, environ: Mapping[str, str] | None = None
) -> Manifest:
    """The manifest in a text."""
    problems = Problems()
    manifest = parse_leniently(text, problems, file=file, environ=environ)
    raise_if_any(problems)
    return manifest


def raise_if_any(problems: Problems) -> None:
    if problems:
        raise ManifestError.of(problems.diagnostics()) from problems.cause


def read_text(path: str | Path, problems: Problems) -> str | None:
    """The text of the file, or None and a problem."""
    place = Location(str(path))
    try:
        with open(path, "rb") as file:
            data = file.read(LARGEST_BYTES + 1)
    except FileNotFoundError:
        hint = "create a project with `torvyn init`, or name another file with `--manifest`"
        problems.add("manifest.not-found", f"the file `{path}` does not exist", place, hint)
        return None
    except (OSError, ValueError) as error:
        reason = os_reason(error)
        problems.add("manifest.unreadable", f"`{path}` cannot be read: {reason}", place)
        return None
    if len(data) > LARGEST_BYTES:
        reason = f"it is larger than {LARGEST_BYTES >> 20} MiB"
        problems.add("manifest.unreadable", f"`{path}` cannot be read: {reason}", place)
        return None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start]
        column = len(before.rpartition(b"\n")[2].decode("utf-8-sig")) + 1
        place = Location(str(path), before.count(b"\n") + 1, column)
        problems.add("manifest.not-utf8", "the file is not UTF-8", place, "save it as UTF-8")
        return None


def parse_leniently(
    text: str,
    problems: Problems,
    *,
    file: str = "Torvyn.toml",
    environ: Mapping[str, str] | None = None,
) -> Manifest:
    """The manifest without the values that are wrong; each adds a problem."""
    root = parse_tree(text.removeprefix("\ufeff"), file, problems)
    if root is None:
        return Manifest(file=file)
    variables = Variables(os.environ if environ is None else environ, problems)
    return _Parser(problems, variables).manifest(root, file)


class Reader:
    """Tables -> records, as the schema requires."""

    def __init__(self, problems: Problems, variables: Variables) -> None:
        self.problems = problems
        self.variables = variables
        self.values = Values(problems, variables)

    def record(self, table: Table, node: Node, kind: type[R], **extra: Any) -> R:
        """The table as its record, without the values that are wrong."""
        if not self._is_table(node, table):
            return kind(location=node.location, **extra)
        locations = {entry.key: entry.node.location for entry in node.entries()}
        values = self._table_values(table, node)
        return kind(location=node.location, locations=locations, **values, **extra)

    def _table_values(self, table: Table, node: Node) -> dict[str, Any]:
        """The values of the table by attribute, without those that are wrong."""
        self._check_keys(table, node)
        values: dict[str, Any] = {}
        for entry in node.entries():
            key = table.key(entry.key)
            value = None if key is None else self._value(key, entry.node)
            if key is not None and value is not None:
                values[key.attribute] = value
        return values

    def _value(self, key: Key, node: Node) -> Any:
        if key.kind == "end":
            return self._end(key, node)
        if key.kind == "error":
            return self._error(key, node)
        if key.kind == "place":
            is_table = self._is_table(node, records.PLACE)
            return self._table_values(records.PLACE, node) if is_table else None
        return self.values.read(key, node)

    def _is_table(self, node: Node, table: Table) -> bool:
        if node.kind == "table":
            return True
        self.values.wrong_type(node, node.location.path or table.header, "a table")
        return False

    def _check_keys(self, table: Table, node: Node) -> None:
        known = tuple(table.names())
        for entry in node.entries():
            if entry.key not in known:
                self.unknown(entry, known, f"in `{_header(table, node)}`")
        misspelt = {nearest(name, known) for name in node.value if name not in known}
        for key in table.keys:
            # A misspelt key is one mistake, and its hint names the right one.
            if key.required and key.name not in node.value and key.name not in misspelt:
                path = join(node.location.path or "", key.name)
                place = Location(node.location.file, node.location.line, node.location.column, path)
                message = f"`{key.name}` is missing in `{_header(table, node)}`"
                hint = f"add it: {key.meaning}"
                self.problems.add("manifest.missing-key", message, place, hint)

    def unknown(self, entry: Entry, known: tuple[str, ...], where: str) -> None:
        hint = suggestion(entry.key, known, f"the keys are {quoted(known)}")
        message = f"unknown key `{entry.key}` {where}"
        self.problems.add("manifest.unknown-key", message, entry.location, hint)

    def _end(self, key: Key, node: Node) -> PortRef | None:
        if node.kind == "table":
            return PortRef(**self._table_values(records.END, node))
        if node.kind != "string":
            expected = "`{ node, port }` or a string"
            hint = f'write `{key.name} = "node:port"`'
            self.values.wrong_type(node, key.name, expected, hint)
            return None
        text = self.values.text(node, key.name)
        if text is None:
            return None
        end = PortRef.parse(text)
        if not end.node or (":" in text and not end.port):
            message = f"`{text}` is not a node or a node's port"
            self.values.bad(node, message, 'write `"node"` or `"node:port"`')
            return None
        return end

    def _error(self, key: Key, node: Node) -> dict[str, Any] | None:
        if node.kind == "table":
            return self._table_values(records.ON_ERROR, node)
        policy_key = records.ON_ERROR.keys[0]
        if node.kind != "string":
            self.values.wrong_type(node, key.name, "a policy or a table")
            return None
        policy = self.values.read(policy_key, node)
        return policy and {"policy": policy}


def _header(table: Table, node: Node) -> str:
    """The header as it is in the file: `[flow.main]`, not `[flow.NAME]`."""
    path = node.location.path
    if path is None or not table.header.startswith("["):
        return table.header
    return f"[[{path.rpartition('[')[0]}]]" if path.endswith("]") else f"[{path}]"


class _Parser(Reader):
    def __init__(self, problems: Problems, variables: Variables) -> None:
        super().__init__(problems, variables)
        self._broken_flows: set[str] = set()

    def manifest(self, root: Node, file: str) -> Manifest:
        for entry in root.entries():
            if entry.key not in records.TOP_LEVEL:
                self.unknown(entry, records.TOP_LEVEL, "at the top of the file")
        parts: dict[str, Any] = {
            "project": self._project(root, file),
            "components": self._components(root.value.get("component")),
            "flows": self._flows(root.value.get("flow"), file),
        }
        for name, table in records.SETTINGS.items():
            if name in root.value and not table.tables:
                parts[name] = self.record(table, root.value[name].node, table.record)
        if "security" in root.value:
            parts["security"] = self._security(root.value["security"])
        if "serve" in root.value:
            parts["serve"] = self._serve(root.value["serve"])
        if "pack" in root.value:
            parts["pack"] = self.record(records.PACK, root.value["pack"].node, records.PACK.record)
        return Manifest(
            **parts,
            file=file,
            location=root.location,
            secrets=frozenset(self.problems.secrets),
            broken_flows=frozenset(self._broken_flows),
            variables=frozenset(self.variables.used),
        )

    def _project(self, root: Node, file: str) -> Any:
        entry = root.value.get("torvyn")
        if entry is None:
            hint = "it holds `name`, `version` and `contract_version`"
            place = Location(file, 1, 1, "torvyn")
            self.problems.add("manifest.missing-key", "`[torvyn]` is missing", place, hint)
            return records.PROJECT.record()
        return self.record(records.PROJECT, entry.node, records.PROJECT.record)

    def _components(self, entry: Entry | None) -> tuple[ComponentRecord, ...]:
        if entry is None:
            return ()
        if entry.node.kind != "array":
            hint = "write `[[component]]` with two brackets"
            self.values.wrong_type(entry.node, "component", "an array of tables", hint)
            return ()
        seen: dict[str, ComponentRecord] = {}
        for node in entry.node.value:
            component = self.record(records.COMPONENT, node, ComponentRecord)
            first = seen.setdefault(component.name, component)
            if first is not component and component.name:
                message = f"the component `{component.name}` is declared twice"
                hint = f"the first is at {first.at('name')}"
                place = component.at("name")
                self.problems.add("manifest.duplicate-component", message, place, hint)
        return tuple(component for name, component in seen.items() if name)

    def _flows(self, entry: Entry | None, file: str) -> dict[str, FlowRecord]:
        flows: dict[str, FlowRecord] = {}
        if entry is not None:
            for item in self._named(entry, "flow"):
                before = len(self.problems)
                flows[item.key] = self._flow(item)
                if len(self.problems) > before:
                    self._broken_flows.add(item.key)
        if not flows:
            hint = "add `[flow.main]` with its nodes and edges"
            place = entry.location if entry else Location(file, 1, 1, "flow")
            self.problems.add("manifest.no-flow", "the manifest has no flow", place, hint)
        return flows

    def _named(self, entry: Entry, what: str) -> list[Entry]:
        """The tables in a table whose keys are names."""
        if entry.node.kind != "table":
            self.values.wrong_type(entry.node, entry.location.path or what, "a table")
            return []
        return [item for item in entry.node.entries() if self.values.name(item.key, item)]

    def _flow(self, entry: Entry) -> FlowRecord:
        nodes: dict[str, NodeRecord] = {}
        edges: list[EdgeRecord] = []
        inside = entry.node.value if entry.node.kind == "table" else {}
        if "nodes" in inside:
            for item in self._named(inside["nodes"], "nodes"):
                nodes[item.key] = self.record(records.NODE, item.node, NodeRecord, name=item.key)
        if "edges" in inside:
            edges = self._edges(inside["edges"])
        extra = {"name": entry.key, "nodes": nodes, "edges": edges}
        return self.record(records.FLOW, entry.node, FlowRecord, **extra)

    def _security(self, entry: Entry) -> SecurityRecord:
        inside = entry.node.value if entry.node.kind == "table" else {}
        grants: dict[str, GrantRecord] = {}
        if "grants" in inside:
            for item in self._named(inside["grants"], "grants"):
                grants[item.key] = self.record(
                    setting_records.GRANT, item.node, GrantRecord, name=item.key
                )
        return self.record(setting_records.SECURITY, entry.node, SecurityRecord, grants=grants)

    def _serve(self, entry: Entry) -> ServeRecord:
        inside = entry.node.value if entry.node.kind == "table" else {}
        routes: dict[str, str] = {}
        places: dict[str, Location] = {}
        if "routes" in inside and self._is_table(inside["routes"].node, setting_records.SERVE):
            # Model names such as `org/model-1.5` are allowed.
            for item in inside["routes"].node.entries():
                flow = self.values.text(item.node, item.key)
                routes |= {} if flow is None else {item.key: flow}
                places[f"routes.{item.key}"] = item.node.location
        serve = self.record(setting_records.SERVE, entry.node, ServeRecord, routes=routes)
        serve.locations = {**serve.locations, **places}
        return serve

    def _edges(self, entry: Entry) -> list[EdgeRecord]:
        if entry.node.kind != "array":
            hint = "write `[[flow.NAME.edges]]` with two brackets"
            self.values.wrong_type(entry.node, "edges", "an array of tables", hint)
            return []
        nodes = cast(list[Node], entry.node.value)
        return [self.record(records.EDGE, node, EdgeRecord) for node in nodes]
