"""Manifest -> the text of a Torvyn.toml, such that `parse(render(m)) == m`.

The parser has expanded variables, so the text may contain secrets: redact it before printing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from torvyn._contract.units import render_duration, render_size
from torvyn._manifest import records, setting_records
from torvyn._manifest.reader import escape
from torvyn._manifest.records import FlowRecord, Manifest, PortRef
from torvyn._manifest.schema import Key, Record, Table

_BARE = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)


def render(manifest: Manifest) -> str:
    """The manifest as text, with tables in the order of the schema."""
    blocks = [_block("[torvyn]", records.PROJECT, manifest.project)]
    for component in manifest.components:
        blocks.append(_block("[[component]]", records.COMPONENT, component))
    for flow in manifest.flows.values():
        blocks.extend(_flow(flow))
    for name, table in records.SETTINGS.items():
        if any(_values(table, getattr(manifest, name))):
            blocks.append(_block(f"[{name}]", table, getattr(manifest, name)))
    for grant in manifest.security.grants.values():
        header = f"[security.grants.{bare_or_quoted(grant.name)}]"
        blocks.append(_block(header, setting_records.GRANT, grant))
    if routes := manifest.serve.routes:
        lines = [f"{bare_or_quoted(name)} = {plain(flow)}" for name, flow in routes.items()]
        blocks.append("\n".join(["[serve.routes]", *lines, ""]))
    if any(_values(records.PACK, manifest.pack)):
        blocks.append(_block("[pack]", records.PACK, manifest.pack))
    return "\n".join(blocks)


def _flow(flow: FlowRecord) -> Iterator[str]:
    header = f"flow.{bare_or_quoted(flow.name)}"
    yield _block(f"[{header}]", records.FLOW, flow)
    for node in flow.nodes.values():
        yield _block(f"[{header}.nodes.{bare_or_quoted(node.name)}]", records.NODE, node)
    for edge in flow.edges:
        yield _block(f"[[{header}.edges]]", records.EDGE, edge)


def _block(header: str, table: Table, record: Record) -> str:
    lines = [f"{key.name} = {_value(key, value)}" for key, value in _values(table, record)]
    return "\n".join([header, *lines, ""])


def _values(table: Table, record: Record | PortRef | dict[str, Any]) -> Iterator[tuple[Key, Any]]:
    """The keys that the author wrote, with their values."""
    for key in table.keys:
        value = (
            record.get(key.attribute)
            if isinstance(record, dict)
            else getattr(record, key.attribute)
        )
        if value is not None:
            yield key, value


def _value(key: Key, value: Any) -> str:
    if key.kind == "end":
        return _inline(records.END, value)
    if key.kind == "error":
        return plain(value["policy"]) if len(value) == 1 else _inline(records.ON_ERROR, value)
    if key.kind == "place":
        return _inline(records.PLACE, value)
    if key.kind == "size":
        return plain(render_size(value))
    if key.kind == "duration":
        return plain(render_duration(value))
    return plain(value)


def _inline(table: Table, record: PortRef | dict[str, Any]) -> str:
    pairs = (f"{key.name} = {_value(key, value)}" for key, value in _values(table, record))
    return f"{{ {', '.join(pairs)} }}"


def plain(value: Any) -> str:
    """JSON data as TOML."""
    if isinstance(value, dict):
        pairs = ", ".join(f"{bare_or_quoted(key)} = {plain(item)}" for key, item in value.items())
        return f"{{ {pairs} }}" if pairs else "{}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(plain(item) for item in value)}]"
    if isinstance(value, str):
        return quote(escape(value))
    if isinstance(value, float):
        text = repr(value)
        return text if any(mark in text for mark in ".e") else f"{text}.0"
    return json.dumps(value)


def bare_or_quoted(key: str) -> str:
    """A key or a part of a table's name, as TOML."""
    return key if _BARE.fullmatch(key) else quote(key)


def quote(text: str) -> str:
    """A text as a TOML string."""
    # TOML has the escapes of JSON, but no lone surrogates, and requires U+007F to be escaped.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
