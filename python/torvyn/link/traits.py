"""What link can see of a component without starting it: its role, its ports, how it is called."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from types import FunctionType
from typing import Any

from torvyn.contract import ROLES, Component
from torvyn.contract.roles import METHODS

_ASYNC_FLAGS = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
INPUT, OUTPUT, ERROR = "input", "output", "error"


def title(component: type[Component] | Component) -> str:
    """The name of the component's class."""
    return component.__name__ if isinstance(component, type) else type(component).__name__


def calls_async(component: type[Component] | Component) -> bool | None:
    """Whether its role's method is `async`; None when it has no such method at all."""
    if getattr(component, "is_guest", False):
        return False
    streaming = getattr(component, "stream_function", None)
    if streaming is not None:
        return _is_async(streaming)
    method = METHODS[component.role]
    if _overrides(component, method):
        return _is_async(getattr(component, method))
    if component.role == "source":
        if hasattr(component, "__aiter__"):
            return True
        return False if hasattr(component, "__iter__") else None
    return None


def reads_stream(component: type[Component] | Component) -> bool:
    """Whether it is one generator over the whole stream, which must own a thread or a task."""
    return getattr(component, "stream_function", None) is not None


def ports_of(component: type[Component] | Component, config: Any) -> tuple[str, ...]:
    """The output ports a node has. A router's follow from its config or stand on its class."""
    if component.role == "sink":
        return ()
    if component.role != "router":
        return (OUTPUT,)
    ports_for = getattr(component, "ports_for", None)
    if ports_for is not None:
        return tuple(ports_for(config))
    if isinstance(config, dict) and "ports" in config:
        return _names(config["ports"])
    return _names(getattr(component, "ports", ()))


def _names(ports: Any) -> tuple[str, ...]:
    if isinstance(ports, str) or not isinstance(ports, Iterable):
        raise ValueError("`ports` is a list of names")
    names = tuple(ports)
    if not all(isinstance(name, str) and name for name in names):
        raise ValueError("`ports` is a list of names")
    if len(set(names)) != len(names):
        raise ValueError("`ports` names a port twice")
    if ERROR in names:
        raise ValueError(f"the port `{ERROR}` is taken by dead letters")
    return names


def _overrides(component: type[Component] | Component, method: str) -> bool:
    if not isinstance(component, type) and method in vars(component):
        return True
    cls = component if isinstance(component, type) else type(component)
    return getattr(cls, method, None) is not getattr(ROLES[component.role], method)


def _is_async(function: Any) -> bool:
    plain = getattr(function, "__func__", function)
    if type(plain) is FunctionType and not plain.__dict__:
        # What `inspect` finds out for a function that nothing was noted on, at a tenth of the time.
        return bool(plain.__code__.co_flags & _ASYNC_FLAGS)
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        return True
    if inspect.isroutine(function) or isinstance(function, type):
        return False
    call = getattr(function, "__call__", None)  # noqa: B004
    return inspect.iscoroutinefunction(call) or inspect.isasyncgenfunction(call)
