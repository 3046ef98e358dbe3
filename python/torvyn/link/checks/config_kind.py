"""Configs: checks that a node's config is of the kind that its component takes.

A component that gets the other kind may find nothing in it, and a filter would then pass all.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from torvyn.contract.config_kind import config_kind_of, table_keys, table_of
from torvyn.contract.enums import ConfigKind, Role
from torvyn.contract.inspection import class_name
from torvyn.contract.roles import Component
from torvyn.errors import ContractError, Diagnostic
from torvyn.manifest.problems import quoted, suggestion

_CODE: Final = "contract.wrong-config"
_TAKES: Final = {
    ConfigKind.TEXT: "text",
    ConfigKind.TABLE: "a table",
    ConfigKind.EITHER: "text or a table",
    ConfigKind.NONE: "no config",
}


_JSON_HINT: Final = (
    'write other text, or set `config_kind = "either"` on its class if it reads JSON itself'
)


def check_config_kind(component: type[Component] | Component, role: str, config: Any) -> None:
    """Raises `ContractError` if the component does not take such a config."""
    # On a command line, and in a running flow, a table is JSON text.
    table = table_of(config) if isinstance(config, str) else config
    given = config if table is None else table
    if config == "" or _is_list_of_ports(role, given):
        return
    kind = config_kind_of(component)
    if kind in _kinds_of(given):
        _check_keys(component, given)
        return
    if kind == ConfigKind.TEXT and table is not None and isinstance(config, str):
        message = f"`{class_name(component)}` takes text as its config, and this text is a JSON "
        raise ContractError(_CODE, f"{message}object, which counts as a table", hint=_JSON_HINT)
    got = "" if kind == ConfigKind.NONE else f" as its config, not {_phrase(given)}"
    message = f"`{class_name(component)}` takes {_TAKES[kind]}{got}"
    raise ContractError(_CODE, message, hint=_hint(component, kind))


def _check_keys(component: type[Component] | Component, config: Any) -> None:
    """Raises for unknown and missing keys, where the component names its keys in a `TypedDict`."""
    keys, name = table_keys(component), class_name(component)
    if not keys or isinstance(config, str):
        return
    problems = [
        Diagnostic(
            _CODE,
            f"`{name}` has no option `{key}`",
            hint=suggestion(str(key), keys, f"its options are {quoted(keys)}"),
        )
        for key in config
        if key not in keys
    ]
    missing = [key for key, is_required in keys.items() if is_required and key not in config]
    problems += [Diagnostic(_CODE, f"`{name}` needs the option `{key}`") for key in missing]
    if problems:
        raise ContractError.of(problems)


def _is_list_of_ports(role: str, config: Any) -> bool:
    """Torvyn itself reads the ports of a router."""
    return role == Role.ROUTER and isinstance(config, Mapping) and "ports" in config


def _kinds_of(config: Any) -> tuple[ConfigKind, ...]:
    """The kinds of components that take this config."""
    if isinstance(config, Mapping):
        return (ConfigKind.TABLE, ConfigKind.EITHER)
    return (ConfigKind.TEXT, ConfigKind.EITHER) if isinstance(config, str) else ()


def _phrase(config: Any) -> str:
    if isinstance(config, Mapping):
        return "a table"
    if isinstance(config, (list, tuple)):
        return "a list"
    return "text" if isinstance(config, str) else f"`{json.dumps(config, default=str)}`"


def _hint(component: type[Component] | Component, kind: ConfigKind) -> str:
    pairs = ", ".join(f"{key} = ..." for key in table_keys(component) or ("name",))
    text, table = 'text, `config = "..."`', f"a table, `config = {{ {pairs} }}`"
    match kind:
        case ConfigKind.TEXT:
            return f"write {text}"
        case ConfigKind.TABLE:
            return f"write {table}"
        case ConfigKind.EITHER:
            return f"write {text}, or {table}"
        case _:
            return "remove `config`, or write `def init(self, config)`"
