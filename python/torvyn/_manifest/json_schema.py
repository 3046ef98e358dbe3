"""The JSON Schema of Torvyn.toml, for editors; generated from the schema."""

from __future__ import annotations

from typing import Any, Final

from torvyn._contract.units import DURATION_PATTERN, SIZE_PATTERN, render_duration, render_size
from torvyn._manifest import records, setting_records
from torvyn._manifest.schema import NAME_PATTERN, VERSION_PATTERN, Key, Table

_VARIABLE = {"type": "string", "pattern": r"\$\{[A-Za-z_][A-Za-z0-9_]*\}"}
"""A string with a variable may have any value once it is expanded."""


def json_schema() -> dict[str, Any]:
    """The schema, as data ready for `json.dumps`."""
    node, edge = _table(records.NODE), _table(records.EDGE)
    flow = _table(records.FLOW)
    flow["properties"]["nodes"] = _names(node)
    flow["properties"]["edges"] = {"type": "array", "items": edge}
    properties: dict[str, Any] = {
        "torvyn": _table(records.PROJECT),
        "component": {"type": "array", "items": _table(records.COMPONENT)},
        "flow": {**_names(flow), "minProperties": 1},
    }
    properties |= {name: _table(table) for name, table in records.SETTINGS.items()}
    properties["pack"] = _table(records.PACK)
    properties["security"]["properties"]["grants"] = _names(_table(setting_records.GRANT))
    properties["serve"]["properties"]["routes"] = {
        "type": "object",
        "additionalProperties": {"type": "string"},
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Torvyn.toml",
        "type": "object",
        "properties": properties,
        "required": ["torvyn", "flow"],
        "additionalProperties": False,
    }


def _names(item: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "additionalProperties": item,
        "propertyNames": {"pattern": NAME_PATTERN},
    }


def _table(table: Table) -> dict[str, Any]:
    schema: dict[str, Any] = {
        "type": "object",
        "description": table.doc,
        "properties": {key.name: _key(key) for key in table.keys},
        "additionalProperties": False,
    }
    required = [key.name for key in table.keys if key.required]
    return {**schema, "required": required} if required else schema


def _key(key: Key) -> dict[str, Any]:
    schema = {"description": key.doc, **_kind(key)}
    if key.default is not None:
        schema["default"] = _default(key)
    return schema


def _default(key: Key) -> Any:
    renderers: dict[str, Any] = {
        "size": render_size,
        "duration": render_duration,
        "strings": list,
    }
    return renderers.get(key.kind, lambda value: value)(key.default)


_SHAPES: Final[dict[str, dict[str, Any]]] = {
    "boolean": {"type": "boolean"},
    "strings": {"type": "array", "items": {"type": "string"}},
    "config": {"type": ["string", "object", "array", "number", "boolean"]},
    "amounts": {
        "type": "object",
        "additionalProperties": {"type": "number", "exclusiveMinimum": 0},
        "propertyNames": {"minLength": 1},
    },
}
_PATTERNS: Final = {
    "size": SIZE_PATTERN,
    "duration": DURATION_PATTERN,
    "name": NAME_PATTERN,
    "version": VERSION_PATTERN,
}


def _kind(key: Key) -> dict[str, Any]:
    if key.choices:
        spellings = [*key.choices, *(alias for alias, _ in key.aliases)]
        return {"anyOf": [{"enum": spellings}, _VARIABLE]}
    if key.kind in _SHAPES:
        return _SHAPES[key.kind]
    if key.kind in ("integer", "ratio"):
        number = "integer" if key.kind == "integer" else "number"
        return {"type": number, "minimum": key.minimum, "maximum": key.maximum}
    if key.kind in _PATTERNS:
        return {"anyOf": [{"type": "string", "pattern": _PATTERNS[key.kind]}, _VARIABLE]}
    if key.kind == "place":
        return _table(records.PLACE)
    if key.kind == "end":
        return {"anyOf": [{"type": "string", "minLength": 1}, _table(records.END)]}
    if key.kind == "error":
        choices = {"enum": list(records.POLICIES)}
        return {"anyOf": [choices, _VARIABLE, _table(records.ON_ERROR)]}
    return {"type": "string"}
