"""What link can see of a component without starting it: its role, its ports, how it is called.

All of it is read through `contract.probe`, so that whatever raises is the component's fault.
"""

from __future__ import annotations

import inspect
from types import FunctionType
from typing import Any, NamedTuple

from torvyn.contract import ROLES, Component
from torvyn.contract.inspection import (
    class_attribute,
    class_name,
    describe_error,
    has_attribute,
    is_class,
    read_attribute,
    read_text_attribute,
)
from torvyn.contract.roles import METHODS, OPTIONAL_METHODS
from torvyn.errors import ContractError

CALLED = {
    role: ("init", method, *OPTIONAL_METHODS[role], "teardown") for role, method in METHODS.items()
}
"""The methods of each role, in the order of their calls."""
_ASYNC_FLAGS = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
_OF_ROLES = {
    role: {name: class_attribute(ROLES[role], name) for name in names}
    for role, names in CALLED.items()
}
"""The methods that a component has when it defines none."""
INPUT, OUTPUT, ERROR = "input", "output", "error"


def title(component: type[Component] | Component) -> str:
    """The name of the component's class."""
    return class_name(component)


def is_component_class(thing: Any) -> bool:
    """Whether it is a class of a role. One that has overwritten its `role` is, and is told so."""
    if not is_class(thing) or not issubclass(thing, Component):
        return False
    return issubclass(thing, tuple(ROLES.values())) or read_text_attribute(thing, "role") in ROLES


def role_of(component: type[Component] | Component) -> str:
    """Its role; raises `ContractError` when a class has overwritten it with something else."""
    role = read_attribute(component, "role")
    if type(role) is str and role in ROLES:
        return role
    shown = f"`{role}`" if type(role) is str else f"an object of type {class_name(role)}"
    message = f"the `role` of `{class_name(component)}` is {shown}"
    hint = "subclass a role and leave `role` as it is"
    raise ContractError("contract.bad-attribute", message, hint=hint)


class Calls(NamedTuple):
    """How a component is called."""

    is_async: bool | None
    """Whether its role's method is `async`; None when it has no such method at all."""
    is_guest: bool = False
    reads_stream: bool = False
    """It is one generator over the whole stream, which must own a thread or a task."""


def calls_of(component: type[Component] | Component, role: str) -> Calls:
    if read_attribute(component, "is_guest", False) is True:
        return Calls(False, is_guest=True)
    streaming = read_attribute(component, "stream_function", None)
    if streaming is not None:
        return Calls(is_async_function(streaming), reads_stream=True)
    return Calls(_is_async(component, role))


def _is_async(component: type[Component] | Component, role: str) -> bool | None:
    method = METHODS[role]
    if overrides(component, role, method):
        return is_async_function(read_attribute(component, method))
    if role == "source":
        if has_attribute(component, "__aiter__"):
            return True
        return False if has_attribute(component, "__iter__") else None
    return None


def ports_of(component: type[Component] | Component, role: str, config: Any) -> tuple[str, ...]:
    """The output ports a node has. A router's follow from its config or stand on its class."""
    if role == "sink":
        return ()
    if role != "router":
        return (OUTPUT,)
    ports_for = read_attribute(component, "ports_for", None)
    if ports_for is not None:
        return tuple(ports_for(config))
    if isinstance(config, dict) and "ports" in config:
        return _names(config["ports"])
    return _names(read_attribute(component, "ports", ()))


def _names(ports: Any) -> tuple[str, ...]:
    if isinstance(ports, str):
        raise ValueError("`ports` is a list of names")
    try:
        names = tuple(ports)
    except Exception as error:
        raise ValueError(f"`ports` is a list of names; {describe_error(error)}") from error
    if not all(isinstance(name, str) and name for name in names):
        raise ValueError("`ports` is a list of names")
    if len(set(names)) != len(names):
        raise ValueError("`ports` names a port twice")
    if ERROR in names:
        raise ValueError(f"the port `{ERROR}` is taken by dead letters")
    return names


def overrides(component: type[Component] | Component, role: str, method: str) -> bool:
    """Whether a method is the component's own and not the one of its role."""
    is_object = not is_class(component)
    if is_object and method in object.__getattribute__(component, "__dict__"):
        return True
    cls: Any = type(component) if is_object else component
    return class_attribute(cls, method) is not _OF_ROLES[role][method]


def is_async_function(function: Any) -> bool:
    """Whether a call gives something to await or to iterate by `async for`."""
    plain = getattr(function, "__func__", function)
    if type(plain) is FunctionType and not plain.__dict__:
        # What `inspect` finds out for a function that nothing was noted on, at a tenth of the time.
        return bool(plain.__code__.co_flags & _ASYNC_FLAGS)
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        return True
    if inspect.isroutine(function) or is_class(function):
        return False
    call = read_attribute(function, "__call__", None)
    return inspect.iscoroutinefunction(call) or inspect.isasyncgenfunction(call)
