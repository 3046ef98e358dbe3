"""Facades: names that are imported when they are first used, so that `import torvyn` is cheap.

A facade lists its names three times, each for a reader of its own: imports for type checkers,
`__all__` for people, and a table for `attach`. A test compares them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def attach(
    package: str, homes: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The `__getattr__` and `__dir__` of a facade.

    `homes` names the module of each name. It is `module:name` where the module calls it otherwise,
    and `package.name` for a module of the facade itself. A name is kept once it was found.
    """

    def find(name: str) -> Any:
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module_name, _, attribute = home.partition(":")
        value = import_module(module_name)
        if home != f"{package}.{name}":
            value = getattr(value, attribute or name)
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes})

    return find, names
