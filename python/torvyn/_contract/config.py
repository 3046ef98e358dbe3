"""What config a component takes: text, a table, or either.

The type of the parameter of `init` says it: `str` is text, `dict` or another mapping is a table,
and a union of both, or no type, is either. `config_kind` on the class overrides it, which guests
need: their `init` takes text only. `init` receives text as it is and a table as a dict, unless its
parameter is a `str`: then a table is JSON text.
"""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Mapping
from typing import Any, Final

from torvyn._contract.enums import ConfigKind
from torvyn._contract.inspection import (
    class_attribute,
    class_name,
    is_class,
    own_attribute,
    read_text_attribute,
)
from torvyn._contract.roles import Component
from torvyn.errors import ContractError

_PLAIN: Final = Component.__dict__["init"]
_BY_TEXT: Final = {"str": ConfigKind.TEXT, "dict[str, Any]": ConfigKind.TABLE}
"""Annotations that need no evaluation."""


def config_kind_of(component: type[Component] | Component) -> ConfigKind:
    """The kind that the component declares; raises `ContractError` for an unknown one."""
    declared = read_text_attribute(component, "config_kind")
    if declared is None:
        return _kind_of_parameter(component)
    if declared not in ConfigKind.texts():
        message = f"`config_kind` of `{class_name(component)}` is `{declared}`"
        hint = f"it must be one of {', '.join(f'`{kind}`' for kind in ConfigKind)}"
        raise ContractError("contract.bad-attribute", message, hint=hint)
    return ConfigKind(declared)


def init_argument(component: Component, config: str) -> Any:
    """What `init` receives for a config as text: text, or a dict."""
    kind = _kind_of_parameter(component)
    if kind in (ConfigKind.TEXT, ConfigKind.NONE):
        return config
    if kind == ConfigKind.TABLE and not config:
        return {}
    table = table_of(config)
    if table is None and kind == ConfigKind.TABLE:
        message = f"`{class_name(component)}` takes a table as its config, not text"
        raise ContractError("contract.wrong-config", message)
    return config if table is None else table


def table_of(config: str) -> dict[str, Any] | None:
    """The table that is written as JSON text, or None for any other text."""
    if not config.lstrip().startswith("{"):
        return None
    try:
        data = json.loads(config)
    except (ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None


def table_keys(component: type[Component] | Component) -> dict[str, bool]:
    """The keys of the table and whether they are required, if the parameter is a `TypedDict`."""
    for member in _members(_annotation(_init_of(component))):
        if typing.is_typeddict(member):
            return {key: key in member.__required_keys__ for key in member.__annotations__}
    return {}


def _kind_of_parameter(component: type[Component] | Component) -> ConfigKind:
    init = _init_of(component)
    if init is _PLAIN:
        return ConfigKind.NONE
    annotation = _annotation(init)
    known = _BY_TEXT.get(annotation) if isinstance(annotation, str) else None
    if known is not None:
        return known
    kinds = {_kind_of_type(member) for member in _members(annotation)}
    return kinds.pop() if len(kinds) == 1 else ConfigKind.EITHER


def _kind_of_type(member: Any) -> ConfigKind:
    origin = typing.get_origin(member) or member
    if origin is str:
        return ConfigKind.TEXT
    if is_class(origin) and (issubclass(origin, Mapping) or typing.is_typeddict(origin)):
        return ConfigKind.TABLE
    return ConfigKind.EITHER


def _init_of(component: type[Component] | Component) -> Any:
    own = None if is_class(component) else own_attribute(component, "init")
    cls: Any = component if is_class(component) else type(component)
    return own or class_attribute(cls, "init")


def _annotation(init: Any) -> Any:
    """The type of the parameter of `init`; None if it has none or cannot be evaluated."""
    function = getattr(init, "__func__", init)
    try:
        annotations = function.__annotations__
        found = next((kind for name, kind in annotations.items() if name != "return"), None)
        if isinstance(found, str) and found not in _BY_TEXT:
            found = eval(found, getattr(function, "__globals__", {}))
    except Exception:
        return None
    return found


def _members(annotation: Any) -> tuple[Any, ...]:
    """The members of a union, without None; any other type by itself."""
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return tuple(each for each in typing.get_args(annotation) if each is not type(None))
    return (annotation,)
