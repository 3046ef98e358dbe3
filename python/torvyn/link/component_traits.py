"""The traits that link reads from a component without starting it: role, ports, call style.

Everything is read through `contract.inspection`, which blames exceptions on the component.
"""

from __future__ import annotations

import inspect
import sys
from types import FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard

from torvyn.contract.inspection import (
    class_attribute,
    class_name,
    describe_error,
    has_attribute,
    is_class,
    is_instance,
    read_attribute,
    read_text_attribute,
)
from torvyn.contract.roles import (
    BATCH_METHODS,
    METHODS,
    OPTIONAL_METHODS,
    ROLES,
    TIMED_ROLES,
    TIMER_METHODS,
    Component,
)
from torvyn.errors import ContractError

if TYPE_CHECKING:
    from torvyn.sandbox.component import GuestComponent

ROLE_METHODS = {
    role: (
        "init",
        method,
        *((BATCH_METHODS[role],) if role in BATCH_METHODS else ()),
        *OPTIONAL_METHODS[role],
        "teardown",
    )
    for role, method in METHODS.items()
}
"""The methods of each role, in the order of their calls."""
_ASYNC_FLAGS = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
_OF_ROLES = {
    role: {name: class_attribute(ROLES[role], name) for name in (*names, *TIMER_METHODS)}
    for role, names in ROLE_METHODS.items()
}
"""The methods of the role itself, which a component may leave as they are."""
_ELEMENTS = frozenset(
    (
        *("chunk", "document", "event", "frame", "line", "message", "number", "pair", "reading"),
        *("record", "request", "row", "sample", "sentence", "token", "word"),
    )
)
"""What names of components say about their outputs."""
INPUT, OUTPUT, ERROR = "input", "output", "error"


def is_guest(component: object) -> TypeGuard[GuestComponent]:
    """Whether it runs in the sandbox. There are no guests before their module was loaded."""
    module = sys.modules.get("torvyn.sandbox.component")
    return module is not None and is_instance(component, module.GuestComponent)


def is_component_class(thing: Any) -> bool:
    """Whether it is a class with a role, even if it has overwritten its `role`."""
    if not is_class(thing) or not issubclass(thing, Component):
        return False
    return issubclass(thing, tuple(ROLES.values())) or read_text_attribute(thing, "role") in ROLES


def unit_of_name(name: str, role: str) -> str | None:
    """What a component sends, if its name says so: `token-source` sends tokens."""
    noun, _, rest = name.rpartition("-")
    return f"{noun}s" if rest == role and noun in _ELEMENTS else None


def role_of(component: type[Component] | Component) -> str:
    """The role; raises `ContractError` when the class has overwritten it."""
    role = read_attribute(component, "role")
    if type(role) is str and role in ROLES:
        return role
    value = f"`{role}`" if type(role) is str else f"an object of type {class_name(role)}"
    message = f"the `role` of `{class_name(component)}` is {value}"
    hint = "subclass a role and do not change `role`"
    raise ContractError("contract.bad-attribute", message, hint=hint)


class CallStyle(NamedTuple):
    """How the methods of a component are called."""

    is_async: bool | None
    """Whether its role's method is `async`; None when it has no such method."""
    is_guest: bool = False
    reads_stream: bool = False
    """It is one generator over the whole stream, which needs a thread or a task of its own."""


def call_style_of(component: type[Component] | Component, role: str) -> CallStyle:
    if read_attribute(component, "is_guest", False) is True:
        return CallStyle(False, is_guest=True)
    streaming = read_attribute(component, "stream_function", None)
    if streaming is not None:
        return CallStyle(is_async_function(streaming), reads_stream=True)
    return CallStyle(_is_async(component, role))


def _is_async(component: type[Component] | Component, role: str) -> bool | None:
    method = METHODS[role]
    if defines_method(component, role, method):
        return is_async_function(read_attribute(component, method))
    batch_method = BATCH_METHODS.get(role)
    if batch_method is not None and defines_method(component, role, batch_method):
        return is_async_function(read_attribute(component, batch_method))
    if role == "source":
        if has_attribute(component, "__aiter__"):
            return True
        return False if has_attribute(component, "__iter__") else None
    return None


def ports_of(component: type[Component] | Component, role: str, config: Any) -> tuple[str, ...]:
    """The output ports. Those of a router come from its config or its class."""
    if role == "sink":
        return ()
    if role in TIMED_ROLES:
        return (OUTPUT, *_names(read_attribute(component, "ports", ())))
    if role != "router":
        return (OUTPUT,)
    ports_for = read_attribute(component, "ports_for", None)
    if ports_for is not None:
        return tuple(ports_for(config))
    if isinstance(config, dict) and "ports" in config:
        return _names(config["ports"])
    return _names(read_attribute(component, "ports", ()))


def inputs_of(component: type[Component] | Component, role: str) -> tuple[str, ...]:
    """The names of the inputs; empty for a component that does not tell them apart."""
    return _names(read_attribute(component, "inputs", ()), "inputs") if role in TIMED_ROLES else ()


def has_timer(component: type[Component] | Component, role: str) -> bool:
    """Whether the component defines `due_ns`."""
    return role in TIMED_ROLES and defines_method(component, role, TIMER_METHODS[0])


def _names(ports: Any, attribute: str = "ports") -> tuple[str, ...]:
    if isinstance(ports, str):
        raise ValueError(f"`{attribute}` must be a list of names")
    try:
        names = tuple(ports)
    except Exception as error:
        message = f"`{attribute}` must be a list of names; {describe_error(error)}"
        raise ValueError(message) from error
    if not all(isinstance(name, str) and name for name in names):
        raise ValueError(f"`{attribute}` must be a list of names")
    if len(set(names)) != len(names):
        raise ValueError(f"`{attribute}` has a name twice")
    if ERROR in names:
        raise ValueError(f"the port `{ERROR}` is reserved for dead letters")
    return names


def defines_method(component: type[Component] | Component, role: str, method: str) -> bool:
    """Whether the component defines the method itself."""
    is_object = not is_class(component)
    if is_object and method in object.__getattribute__(component, "__dict__"):
        return True
    cls: Any = type(component) if is_object else component
    return class_attribute(cls, method) is not _OF_ROLES[role][method]


def is_async_function(function: Any) -> bool:
    """Whether a call returns something to await or to iterate with `async for`."""
    plain = getattr(function, "__func__", function)
    if type(plain) is FunctionType and not plain.__dict__:
        # The result of `inspect` for a function without attributes, in a tenth of the time.
        return bool(plain.__code__.co_flags & _ASYNC_FLAGS)
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        return True
    if inspect.isroutine(function) or is_class(function):
        return False
    call = read_attribute(function, "__call__", None)
    return inspect.iscoroutinefunction(call) or inspect.isasyncgenfunction(call)
