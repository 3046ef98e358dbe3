"""The reference page of Torvyn.toml, generated from the schema."""

from __future__ import annotations

from collections.abc import Iterator

from torvyn.manifest.schema import tables
from torvyn.manifest.schema.keys import Key, Table
from torvyn.manifest.units import render_duration, render_size

_KINDS = {
    "end": "string or table",
    "error": "string or table",
    "config": "string or table",
    "place": "table",
    "amounts": "table of numbers",
    "ratio": "number",
}


def reference() -> str:
    """Markdown with one section per table and one row per key."""
    return "\n".join(line for table in tables.ALL for line in _section(table))


def _section(table: Table) -> Iterator[str]:
    yield f"## `{table.header}`"
    yield ""
    yield table.doc
    yield ""
    yield "| key | value | default | meaning |"
    yield "|---|---|---|---|"
    for key in table.keys:
        yield f"| `{key.name}` | {_value(key)} | {default_text(key)} | {key.doc} |"
    yield ""


def _value(key: Key) -> str:
    if key.choices:
        return ", ".join(f"`{choice}`" for choice in key.choices)
    return _KINDS.get(key.kind, key.kind)


def default_text(key: Key) -> str:
    if key.required:
        return "required"
    if key.default_doc is not None:
        return key.default_doc
    if key.default is None:
        return "none"
    if key.kind == "size":
        return f"`{render_size(key.default)}`"
    if key.kind == "duration":
        return f"`{render_duration(key.default)}`"
    return f"`{key.default}`" if key.default != "" else "empty"
