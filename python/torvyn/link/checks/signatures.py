"""Signatures: checks that a component's methods accept the calls of its role.

A method with too few or too many parameters, or one that is `async` while the main method is not,
would fail at the first element or at the end of the stream. Link reports it before anything starts.
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from types import FunctionType, MethodType
from typing import Any, Final

from torvyn.contract.inspection import class_attribute, class_name, is_class
from torvyn.contract.roles import BATCH_METHODS, METHODS, TIMED_ROLES, TIMER_METHODS, Component
from torvyn.errors import Location
from torvyn.link.component_traits import ROLE_METHODS, defines_method, is_async_function
from torvyn.manifest.problems import Problems
from torvyn.manifest.records import NodeRecord

ARGUMENTS: Final[dict[str, tuple[str, ...]]] = {
    "init": ("config",),
    "teardown": (),
    "pull": (),
    "notify_backpressure": ("signal",),
    "process": ("element",),
    "evaluate": ("element",),
    "route": ("element",),
    "ingest": ("element",),
    "push": ("element",),
    **dict.fromkeys(BATCH_METHODS.values(), ("elements",)),
    "pull_batch": ("most",),
    "flush": (),
    "due_ns": (),
    "on_timer": (),
    "complete": ("end",),
}
"""The arguments of each method."""

_STARRED: Final = inspect.CO_VARARGS


@dataclass(frozen=True, slots=True)
class _Method:
    """A method as its author wrote it, and the number of arguments that are bound already."""

    name: str
    function: Any
    bound: int

    @property
    def arguments(self) -> tuple[str, ...]:
        return ARGUMENTS[self.name]

    @property
    def fits(self) -> bool:
        return _accepts(self.function, self.bound + len(self.arguments))

    @property
    def signature(self) -> str:
        """The signature without annotations, which do not matter here."""
        bare = inspect.Parameter.empty
        try:
            signature = inspect.signature(self.function)
            parameters = [item.replace(annotation=bare) for item in signature.parameters.values()]
            text = signature.replace(parameters=parameters, return_annotation=bare)
        except Exception:
            return self.name
        return f"{self.name}{text}"


_FIT: Final[weakref.WeakSet[type[Any]]] = weakref.WeakSet()
"""Classes without a problem: each is checked once, however many flows use it."""


def check_signatures(
    component: type[Component] | Component,
    role: str,
    is_async: bool,
    record: NodeRecord,
    path: str,
    problems: Problems,
) -> None:
    """Adds a problem for each method that its role cannot call."""
    names = ROLE_METHODS[role] + (TIMER_METHODS if role in TIMED_ROLES else ())
    cls: Any = component if is_class(component) else type(component)
    own = {} if cls is component else object.__getattribute__(component, "__dict__")
    is_plain = type(cls) is type and own.keys().isdisjoint(names)
    if is_plain and cls in _FIT:
        return
    methods = (_method(cls, own, name) for name in names if defines_method(component, role, name))
    results = [
        _problem(component, role, is_async, method) for method in methods if method is not None
    ]
    for message, hint in filter(None, results):
        place = record.location or Location(path=path)
        problems.add("contract.wrong-signature", f"node `{record.name}`: {message}", place, hint)
    if is_plain and not any(results):
        _FIT.add(cls)


def _problem(
    component: type[Component] | Component, role: str, is_async: bool, method: _Method
) -> tuple[str, str] | None:
    """The problem of a method and a hint."""
    name, title = method.name, class_name(component)
    hint = f"write `def {name}({', '.join(('self', *method.arguments))})`"
    if not callable(method.function):
        return f"`{name}` of `{title}` is not a method", hint
    if not method.fits:
        call = f"{name}({', '.join(method.arguments)})"
        message = f"`{title}` has `{method.signature}`, but {_article(role)} is called as `{call}`"
        return message, hint
    if not is_async and is_async_function(method.function):
        # The component does not run on an event loop, so nothing would await the call.
        main = _main_method(component, role)
        message = f"`{name}` of `{title}` is async and `{main}` is not"
        return message, f"write `async def {main}` as well, or make `{name}` a plain method"
    return None


def _main_method(component: type[Component] | Component, role: str) -> str:
    """The method that decides whether the component runs on an event loop."""
    for name in filter(None, (METHODS[role], BATCH_METHODS.get(role))):
        if defines_method(component, role, name):
            return name
    return "__iter__"


def _article(role: str) -> str:
    return f"{'an' if role == 'aggregator' else 'a'} {role}"


def _method(cls: type[Any], own: Mapping[str, Any], name: str) -> _Method | None:
    """The method as its author wrote it; None for descriptors that cannot be inspected."""
    if name in own:
        return _Method(name, own[name], 0)
    attribute = class_attribute(cls, name)
    if isinstance(attribute, staticmethod):
        return _Method(name, attribute.__func__, 0)
    if isinstance(attribute, classmethod):
        return _Method(name, attribute.__func__, 1)
    if isinstance(attribute, FunctionType):
        return _Method(name, attribute, 1)
    if hasattr(type(attribute), "__get__"):
        return None
    return _Method(name, attribute, 0)


def _accepts(function: Any, count: int) -> bool:
    """Whether it can be called with so many arguments by position."""
    if isinstance(function, MethodType):
        return _accepts(function.__func__, count + 1)
    if not isinstance(function, FunctionType):
        return _binds(function, count)
    code = function.__code__
    names = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    defaults = function.__kwdefaults__ or {}
    if any(name not in defaults for name in names):
        return False
    least = code.co_argcount - len(function.__defaults__ or ())
    return least <= count and (count <= code.co_argcount or bool(code.co_flags & _STARRED))


def _binds(function: Any, count: int) -> bool:
    try:
        signature = inspect.signature(function)
    except Exception:
        # Some built-in functions have no signature.
        return True
    try:
        signature.bind(*(None,) * count)
    except TypeError:
        return False
    return True
