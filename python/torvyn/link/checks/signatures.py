"""Signatures: whether a component's methods can be called the way its role calls them.

A method that takes too few or too many arguments, or that is `async` beside one that is not, would
fail at the first element, or only when the stream ends. Link says so before anything starts, with
what the method takes and what it is called with.
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from types import FunctionType, MethodType
from typing import Any, Final

from torvyn.contract import Component
from torvyn.contract.inspection import class_attribute, class_name, is_class
from torvyn.contract.roles import METHODS
from torvyn.errors import Location
from torvyn.link.component_traits import CALLED, is_async_function, overrides
from torvyn.manifest.problems import Problems
from torvyn.manifest.records import NodeRecord

_ARGUMENTS: Final[dict[str, tuple[str, ...]]] = {
    "init": ("config",),
    "teardown": (),
    "pull": (),
    "notify_backpressure": ("signal",),
    "process": ("element",),
    "evaluate": ("element",),
    "route": ("element",),
    "ingest": ("element",),
    "push": ("element",),
    "flush": (),
    "complete": ("end",),
}
"""What each method is called with."""

_STARRED: Final = inspect.CO_VARARGS


@dataclass(frozen=True, slots=True)
class _Method:
    """A method as it was written, and how many arguments it is given before its own."""

    name: str
    function: Any
    bound: int

    @property
    def arguments(self) -> tuple[str, ...]:
        return _ARGUMENTS[self.name]

    @property
    def fits(self) -> bool:
        return _accepts(self.function, self.bound + len(self.arguments))

    @property
    def shown(self) -> str:
        """As it was written, without annotations: they are not what is wrong."""
        bare = inspect.Parameter.empty
        try:
            signature = inspect.signature(self.function)
            taken = [each.replace(annotation=bare) for each in signature.parameters.values()]
            shown = signature.replace(parameters=taken, return_annotation=bare)
        except Exception:
            return self.name
        return f"{self.name}{shown}"


_FIT: Final[weakref.WeakSet[type[Any]]] = weakref.WeakSet()
"""Classes without a problem: a program that makes many flows of one class looks at it once."""


def check_signatures(
    part: type[Component] | Component,
    role: str,
    is_async: bool,
    record: NodeRecord,
    path: str,
    problems: Problems,
) -> None:
    """Adds a problem for each method that its role cannot call."""
    names = CALLED[role]
    cls: Any = part if is_class(part) else type(part)
    own = {} if cls is part else object.__getattribute__(part, "__dict__")
    is_plain = type(cls) is type and own.keys().isdisjoint(names)
    if is_plain and cls in _FIT:
        return
    methods = (_method(cls, own, name) for name in names if overrides(part, role, name))
    found = [_problem(part, role, is_async, method) for method in methods if method is not None]
    for message, hint in filter(None, found):
        place = record.location or Location(path=path)
        problems.add("contract.wrong-signature", f"node `{record.name}`: {message}", place, hint)
    if is_plain and not any(found):
        _FIT.add(cls)


def _problem(
    part: type[Component] | Component, role: str, is_async: bool, method: _Method
) -> tuple[str, str] | None:
    """What is wrong with a method, and what to write instead."""
    name, title = method.name, class_name(part)
    wanted = f"write `def {name}({', '.join(('self', *method.arguments))})`"
    if not callable(method.function):
        return f"`{name}` of `{title}` is not a method", wanted
    if not method.fits:
        call = f"{name}({', '.join(method.arguments)})"
        message = f"`{title}` has `{method.shown}`, and {_article(role)} is called as `{call}`"
        return message, wanted
    if not is_async and is_async_function(method.function):
        # Nobody would await it: the component does not run on a loop.
        main = METHODS[role] if overrides(part, role, METHODS[role]) else "__iter__"
        message = f"`{name}` of `{title}` is async and `{main}` is not"
        return message, f"write `async def {main}` as well, or make `{name}` a plain method"
    return None


def _article(role: str) -> str:
    return f"{'an' if role == 'aggregator' else 'a'} {role}"


def _method(cls: type[Any], own: Mapping[str, Any], name: str) -> _Method | None:
    """The method as it was written; None for what only its object can tell."""
    if name in own:
        return _Method(name, own[name], 0)
    found = class_attribute(cls, name)
    if isinstance(found, staticmethod):
        return _Method(name, found.__func__, 0)
    if isinstance(found, classmethod):
        return _Method(name, found.__func__, 1)
    if isinstance(found, FunctionType):
        return _Method(name, found, 1)
    if hasattr(type(found), "__get__"):
        return None
    return _Method(name, found, 0)


def _accepts(function: Any, count: int) -> bool:
    """Whether it can be called with so many arguments by position."""
    if isinstance(function, MethodType):
        return _accepts(function.__func__, count + 1)
    if not isinstance(function, FunctionType):
        return _binds(function, count)
    code = function.__code__
    names = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    given = function.__kwdefaults__ or {}
    if any(name not in given for name in names):
        return False
    least = code.co_argcount - len(function.__defaults__ or ())
    return least <= count and (count <= code.co_argcount or bool(code.co_flags & _STARRED))


def _binds(function: Any, count: int) -> bool:
    try:
        signature = inspect.signature(function)
    except Exception:
        # Some builtins do not say what they take.
        return True
    try:
        signature.bind(*(None,) * count)
    except TypeError:
        return False
    return True
