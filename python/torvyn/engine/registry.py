"""Names -> engines: a table of modules, imported when an engine is opened.

Any other name is `module:Class` of your own engine.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final

from torvyn.components.spec import did_you_mean
from torvyn.engine.engine import Engine
from torvyn.errors import InvalidInput, MissingError

ENGINES: Final[dict[str, str]] = {
    "scripted": "torvyn.engine.scripted:Scripted",
    "openai": "torvyn.engine.openai.engine:OpenAI",
    "local": "torvyn.engine.local.engine:Local",
    "transformers": "torvyn.engine.transformers.engine:Transformers",
    "mlc": "torvyn.engine.mlc:MLC",
    "pool": "torvyn.engine.pool.engine:Pool",
}
"""Name -> `module:Class`."""


def open(name: str, **options: Any) -> Engine:
    """Opens the engine of that name. Raises if the name or an option is unknown."""
    cls = engine_class(name)
    try:
        inspect.signature(cls).bind(**options)
    except TypeError as error:
        raise InvalidInput(
            f"{name}: {error}",
            hint=f"its options are {', '.join(option_names(cls))}{_meant(cls, options)}",
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
        cls = getattr(import_module(module), attribute, None)
    except ModuleNotFoundError as error:
        if not f"{module}.".startswith(f"{error.name}."):
            raise
        cls = None
    if not (isinstance(cls, type) and issubclass(cls, Engine)):
        raise _unknown(name)
    return cls


def option_names(cls: type[Engine]) -> list[str]:
    return [f"`{name}`" for name in inspect.signature(cls).parameters]


def _meant(cls: type[Engine], options: Mapping[str, Any]) -> str:
    """The option that the first unknown name may stand for."""
    known = inspect.signature(cls).parameters
    unknown = [name for name in options if name not in known]
    return did_you_mean(unknown[0], known, cls.other_names) if unknown else ""


def _unknown(name: str) -> MissingError:
    near = difflib.get_close_matches(name, ENGINES, n=1)
    known = f"engines are {', '.join(ENGINES)}, or your own as `module:Class`"
    hint = f"did you mean `{near[0]}`? {known}" if near else known
    return MissingError("engine.unknown", f"no engine is called `{name}`", hint=hint)
