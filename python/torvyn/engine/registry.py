"""Names -> engines: a table of modules, imported when an engine is opened.

A name that is not here may be `module:Class` of an engine of one's own.
"""

from __future__ import annotations

import difflib
import inspect
from importlib import import_module
from typing import Any, Final

from torvyn.engine.engine import Engine
from torvyn.errors import InvalidInput, MissingError

ENGINES: Final[dict[str, str]] = {
    "scripted": "torvyn.engine.scripted:Scripted",
    "openai": "torvyn.engine.openai.engine:OpenAI",
    "local": "torvyn.engine.local.engine:Local",
    "transformers": "torvyn.engine.transformers.engine:Transformers",
    "mlc": "torvyn.engine.mlc:MLC",
}
"""Name -> `module:Class`."""


def open(name: str, **options: Any) -> Engine:
    """The engine of that name; raises when there is none or an option does not fit."""
    cls = engine_class(name)
    try:
        inspect.signature(cls).bind(**options)
    except TypeError as error:
        raise InvalidInput(
            f"{name}: {error}",
            hint=f"its options are {', '.join(option_names(cls))}",
            code="engine.bad-option",
        ) from None
    return cls(**options)


def engine_class(name: str) -> type[Engine]:
    """The class, imported."""
    target = ENGINES.get(name, name)
    module, _, attribute = target.partition(":")
    if not attribute:
        raise _unknown(name)
    try:
        found = getattr(import_module(module), attribute, None)
    except ModuleNotFoundError as error:
        if not f"{module}.".startswith(f"{error.name}."):
            raise
        found = None
    if not (isinstance(found, type) and issubclass(found, Engine)):
        raise _unknown(name)
    return found


def option_names(cls: type[Engine]) -> list[str]:
    return [f"`{name}`" for name in inspect.signature(cls).parameters]


def _unknown(name: str) -> MissingError:
    near = difflib.get_close_matches(name, ENGINES, n=1)
    known = f"they are {', '.join(ENGINES)}, or `module:Class` of your own"
    hint = f"did you mean `{near[0]}`? {known}" if near else known
    return MissingError("engine.unknown", f"there is no engine `{name}`", hint=hint)
