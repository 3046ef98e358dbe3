"""Checked values: what a draft says, judged by the manifest's own table of keys.

Drafts from a manifest have been judged before; drafts made in a program have not. Both pass here.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from torvyn.contract.units import parse_duration_s, parse_size_bytes
from torvyn.errors import Location
from torvyn.link.draft import EdgeDraft, FlowDraft, NodeDraft
from torvyn.manifest.problems import Problems, nearest, quoted, suggestion
from torvyn.manifest.schema.keys import Key, Table

Draft = FlowDraft | NodeDraft | EdgeDraft

FIELDS: Mapping[str, str] = {
    "max_memory": "max_memory_bytes",
    "call_timeout": "call_timeout_s",
    "init_timeout": "init_timeout_s",
    "deadline": "deadline_s",
}
"""Drafts have units in their names, the manifest has them in its values."""


def place_of(draft: Draft, key: str, path: str) -> Location:
    """Where the key was written; in a program, only the path is known."""
    if key in draft.locations:
        return draft.locations[key]
    place = draft.location
    if place is None:
        return Location(path=path)
    return Location(place.file, place.line, place.column, path)


def value_of(table: Table, name: str, draft: Draft, path: str, problems: Problems) -> Any:
    """What the draft says of a key, or None when it says nothing or something wrong."""
    value = getattr(draft, FIELDS.get(name, name))
    if value is None:
        return None
    key = table.key(name)
    assert key is not None
    try:
        return _checked(key, value)
    except ValueError as error:
        message, *hint = error.args
        place = place_of(draft, name, f"{path}.{name}")
        problems.add("link.bad-value", f"`{name}` {message}", place, *hint)
        return None


def _checked(key: Key, value: Any) -> Any:
    if key.choices:
        return _choice(key, value)
    if key.kind == "string":
        if not isinstance(value, str):
            raise ValueError(f"is {value!r}, not a string")
        return value
    if key.kind == "boolean":
        if not isinstance(value, bool):
            raise ValueError(f"is {value!r}, not true or false")
        return value
    if key.kind == "strings":
        if isinstance(value, str) or not all(isinstance(item, str) for item in value):
            raise ValueError(f"is {value!r}, not a list of strings")
        return tuple(value)
    if key.kind == "size":
        value = parse_size_bytes(value)
    elif key.kind == "duration":
        value = parse_duration_s(value)
    wanted = (int,) if key.kind == "integer" else (int, float)
    if isinstance(value, bool) or not isinstance(value, wanted) or not math.isfinite(value):
        raise ValueError(
            f"is {value!r}, not a number" + (" without a fraction" * (len(wanted) == 1))
        )
    if not key.minimum <= value <= key.maximum:
        raise ValueError(f"is {value:g}; it must be from {key.minimum:g} to {key.maximum:g}")
    return value


def _choice(key: Key, value: Any) -> str:
    value = dict(key.aliases).get(value, value)
    if isinstance(value, str) and value in key.choices:
        return value
    hint = suggestion(str(value), key.choices, f"it is {quoted(key.choices, 'or')}")
    raise ValueError(f"cannot be {value!r}", hint)


def config_text(config: Any) -> str:
    """A config as `init` gets it: text as it is, data as JSON; raises `ValueError`."""
    if config is None:
        return ""
    if isinstance(config, str):
        return config
    try:
        return json.dumps(config, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"has no form in JSON: {error}") from error


def override(
    configs: dict[str, Any], overrides: Mapping[str, str], flow: str, problems: Problems
) -> None:
    """`node.key=value` from the command line, put into the nodes' configs."""
    for target, text in overrides.items():
        node, _, key = target.partition(".")
        place = Location("command line", path=f"--config {target}")
        if node not in configs:
            hint = suggestion(
                node, configs, f"its nodes are {quoted(configs)}" if configs else None
            )
            message = f"flow `{flow}` has no node `{node}` to configure"
            problems.add("link.node-unknown", message, place, hint)
        elif not key:
            configs[node] = text
        elif isinstance(configs[node], str) and configs[node]:
            message = f"the config of `{node}` is a string and has no key `{key}`"
            hint = f"give all of it: `--config {node}=TEXT`"
            problems.add("link.bad-override", message, place, hint)
        elif not _put(configs, node, key.split("."), _data(text)):
            message = f"the config of `{node}` has no table on the way to `{key}`"
            problems.add("link.bad-override", message, place)


def _put(configs: dict[str, Any], node: str, keys: list[str], value: Any) -> bool:
    """A copy of the config with the value in it; False when something else is in the way."""
    root: dict[str, Any] = dict(configs[node] or {})
    table = root
    for key in keys[:-1]:
        held = table.get(key, {})
        if not isinstance(held, dict):
            return False
        table[key] = dict(held)
        table = table[key]
    table[keys[-1]] = value
    configs[node] = root
    return True


def _data(text: str) -> Any:
    """Numbers, truth values, lists and tables in JSON; everything else is text."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return text if data is None or isinstance(data, str) else data


def near(name: str, known: Any, listing: str) -> str:
    """`listing`, and the name that was probably meant."""
    close = nearest(name, known)
    return f"{listing}; did you mean `{close}`?" if close else listing
