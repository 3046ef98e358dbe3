"""Torvyn.toml text -> Manifest, with file:line:column for every problem.

`read` and `parse` raise one `ManifestError` for all problems. `parse_leniently` returns what it can
read and collects problems, so that link can add its own and you see all of them in one run.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from torvyn._manifest import records
from torvyn._manifest.problems import Problems
from torvyn._manifest.reader import Reader
from torvyn._manifest.records import (
    ComponentRecord,
    EdgeRecord,
    FlowRecord,
    Manifest,
    NodeRecord,
    ProjectRecord,
)
from torvyn._manifest.setting_records import (
    GRANT,
    SECURITY,
    SERVE,
    GrantRecord,
    SecurityRecord,
    ServeRecord,
)
from torvyn._manifest.toml_tree import Entry, Node, parse_tree
from torvyn.errors import Location, ManifestError, os_reason

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
    location = Location(str(path))
    try:
        with open(path, "rb") as file:
            data = file.read(LARGEST_BYTES + 1)
    except FileNotFoundError:
        hint = "create a project with `torvyn init`, or name another file with `--manifest`"
        problems.add("manifest.not-found", f"the file `{path}` does not exist", location, hint)
        return None
    except (OSError, ValueError) as error:
        reason = os_reason(error)
        problems.add("manifest.unreadable", f"`{path}` cannot be read: {reason}", location)
        return None
    if len(data) > LARGEST_BYTES:
        reason = f"it is larger than {LARGEST_BYTES >> 20} MiB"
        problems.add("manifest.unreadable", f"`{path}` cannot be read: {reason}", location)
        return None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start]
        column = len(before.rpartition(b"\n")[2].decode("utf-8-sig")) + 1
        location = Location(str(path), before.count(b"\n") + 1, column)
        problems.add("manifest.not-utf8", "the file is not UTF-8", location, "save it as UTF-8")
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
    reader = Reader(problems, os.environ if environ is None else environ)
    return _manifest(reader, root, file)


def _manifest(reader: Reader, root: Node, file: str) -> Manifest:
    reader.check_known(root, records.TOP_LEVEL, "at the top of the file")
    flows, broken_flows = _flows(reader, root.value.get("flow"), file)
    nested: dict[str, Any] = {"security": _security, "serve": _serve}
    settings: dict[str, Any] = {
        name: nested[name](reader, root.value[name].node)
        if table.tables
        else reader.record(table, root.value[name].node, table.record)
        for name, table in (*records.SETTINGS.items(), ("pack", records.PACK))
        if name in root.value
    }
    return Manifest(
        project=_project(reader, root, file),
        components=_components(reader, root.value.get("component")),
        flows=flows,
        **settings,
        file=file,
        location=root.location,
        secrets=frozenset(reader.problems.secrets),
        broken_flows=broken_flows,
        variables=frozenset(reader.variables),
    )


def _project(reader: Reader, root: Node, file: str) -> ProjectRecord:
    entry = root.value.get("torvyn")
    if entry is None:
        hint = "it holds `name`, `version` and `contract_version`"
        location = Location(file, 1, 1, "torvyn")
        reader.problems.add("manifest.missing-key", "`[torvyn]` is missing", location, hint)
        return ProjectRecord()
    return reader.record(records.PROJECT, entry.node, ProjectRecord)


def _components(reader: Reader, entry: Entry | None) -> tuple[ComponentRecord, ...]:
    if entry is None:
        return ()
    seen: dict[str, ComponentRecord] = {}
    for node in reader.tables(entry, "component", "component"):
        component = reader.record(records.COMPONENT, node, ComponentRecord)
        first = seen.setdefault(component.name, component)
        if first is not component and component.name:
            message = f"the component `{component.name}` is declared twice"
            hint = f"the first is at {first.at('name')}"
            location = component.at("name")
            reader.problems.add("manifest.duplicate-component", message, location, hint)
    return tuple(component for name, component in seen.items() if name)


def _flows(
    reader: Reader, entry: Entry | None, file: str
) -> tuple[dict[str, FlowRecord], frozenset[str]]:
    """The flows, and the names of those with problems."""
    flows: dict[str, FlowRecord] = {}
    broken: set[str] = set()
    for item in reader.named_tables(entry, "flow") if entry else ():
        before = len(reader.problems)
        flows[item.key] = _flow(reader, item)
        if len(reader.problems) > before:
            broken.add(item.key)
    if not flows:
        hint = "add `[flow.main]` with its nodes and edges"
        location = entry.location if entry else Location(file, 1, 1, "flow")
        reader.problems.add("manifest.no-flow", "the manifest has no flow", location, hint)
    return flows, frozenset(broken)


def _flow(reader: Reader, entry: Entry) -> FlowRecord:
    nodes: dict[str, NodeRecord] = {}
    edges: list[EdgeRecord] = []
    inside = _entries(entry.node)
    if "nodes" in inside:
        for item in reader.named_tables(inside["nodes"], "nodes"):
            nodes[item.key] = reader.record(records.NODE, item.node, NodeRecord, name=item.key)
    if "edges" in inside:
        tables = reader.tables(inside["edges"], "edges", "flow.NAME.edges")
        edges = [reader.record(records.EDGE, node, EdgeRecord) for node in tables]
    extra = {"name": entry.key, "nodes": nodes, "edges": edges}
    return reader.record(records.FLOW, entry.node, FlowRecord, **extra)


def _entries(node: Node) -> Mapping[str, Entry]:
    """The keys of a table; none of what should be one."""
    return node.value if node.kind == "table" else {}


def _security(reader: Reader, node: Node) -> SecurityRecord:
    inside = _entries(node)
    grants: dict[str, GrantRecord] = {}
    if "grants" in inside:
        for item in reader.named_tables(inside["grants"], "grants"):
            grants[item.key] = reader.record(GRANT, item.node, GrantRecord, name=item.key)
    return reader.record(SECURITY, node, SecurityRecord, grants=grants)


def _serve(reader: Reader, node: Node) -> ServeRecord:
    inside = _entries(node)
    routes: dict[str, str] = {}
    locations: dict[str, Location] = {}
    if "routes" in inside and reader.is_table(inside["routes"].node, "serve.routes"):
        # Model names such as `org/model-1.5` are allowed.
        for item in inside["routes"].node.entries():
            flow = reader.text(item.node, item.key)
            routes |= {} if flow is None else {item.key: flow}
            locations[f"routes.{item.key}"] = item.node.location
    serve = reader.record(SERVE, node, ServeRecord, routes=routes)
    serve.locations = {**serve.locations, **locations}
    return serve
