"""`key` on a node: which components can have one instance per key, and the memory for its keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from torvyn.components.keys import KEY_BYTES
from torvyn.contract.batch_methods import has_single_method
from torvyn.contract.inspection import class_name
from torvyn.contract.roles import METHODS, TIMED_ROLES, Component
from torvyn.link.component_traits import call_style_of
from torvyn.link.option_values import place_of, value_of
from torvyn.manifest.problems import Problems
from torvyn.manifest.records import NodeRecord
from torvyn.manifest.schema.tables import NODE
from torvyn.manifest.units import render_size

RESERVED_BYTES: Final = 2 * KEY_BYTES
"""What a key may use on average: what it counts for itself, and as much for its component."""


def key_options(
    record: NodeRecord,
    component: type[Component] | Component,
    role: str,
    path: str,
    problems: Problems,
) -> dict[str, Any]:
    """`key` and `max_keys` of a NodePlan."""
    max_keys = value_of(NODE, "max_keys", record, path, problems)
    if record.key is None:
        if max_keys is not None:
            place = place_of(record, "max_keys", f"{path}.max_keys")
            message = f"node `{record.name}` has `max_keys` but no `key`"
            problems.add("link.bad-value", message, place, "set `key`, or remove `max_keys`")
        return {}
    place = place_of(record, "key", f"{path}.key")
    key = record.key if callable(record.key) else value_of(NODE, "key", record, path, problems)
    wrong = _wrong_key(component, role)
    if key == "":
        problems.add("link.bad-value", "`key` is empty", place, 'name a field: `key = "sensor"`')
    elif wrong is not None:
        problems.add("link.bad-key", f"node `{record.name}`: {wrong[0]}", place, wrong[1])
    return {"key": key, **({} if max_keys is None else {"max_keys": max_keys})}


def memory_of_keys(
    record: NodeRecord,
    limit_bytes: int,
    keys: Mapping[str, Any],
    path: str,
    problems: Problems,
    *,
    is_default: bool,
) -> int:
    """The memory that the node may use: enough for its `max_keys`, unless somebody has set it. Then
    it is kept, with a warning if so many keys can never fit."""
    if "max_keys" not in keys:
        return limit_bytes
    max_keys: int = keys["max_keys"]
    if is_default and record.max_memory_bytes is None:
        return max(limit_bytes, max_keys * RESERVED_BYTES)
    if max_keys * KEY_BYTES > limit_bytes:
        setting = "`max_memory_per_component` of `[runtime]`"
        if record.max_memory_bytes is not None:
            setting = "its `max_memory`"
        message = (
            f"node `{record.name}` may have {max_keys} keys, but {setting} of "
            f"{render_size(limit_bytes)} is enough for at most {limit_bytes // KEY_BYTES}: beyond "
            "it, keys are flushed and forgotten"
        )
        needed = render_size(max_keys * RESERVED_BYTES)
        hint = f'set `max_memory = "{needed}"` on the node, or a smaller `max_keys`'
        place = place_of(record, "max_keys", f"{path}.max_keys")
        problems.warn("link.keys-exceed-memory", message, place, hint)
    return limit_bytes


def _wrong_key(component: type[Component] | Component, role: str) -> tuple[str, str] | None:
    """The reason why the component cannot have a key, and a hint."""
    style, name = call_style_of(component, role), class_name(component)
    if role not in TIMED_ROLES:
        return f"a {role} cannot have a `key`", "only processors and aggregators have state per key"
    if style.is_guest:
        hint = "run it in process, or keep the state of all keys inside the component"
        return f"`{name}` is sandboxed and cannot have a `key`", hint
    if style.reads_stream:
        return f"`{name}` reads a whole stream and cannot have a `key`", "write it as a class"
    if not has_single_method(component, role):
        return (
            f"`{name}` takes only batches and cannot have a `key`",
            f"write `{METHODS[role]}` too",
        )
    if style.is_async:
        return f"`{name}` is async and cannot have a `key`", "make its methods plain methods"
    return None
