"""Probe: the one way in which torvyn looks at objects that users made.

A property may raise, `__getattr__` may raise for names that it does not know, `__class__` may lie,
a metaclass may have a `__name__` of its own, and the text of an exception may fail. Whatever goes
wrong here is the component's fault: it becomes a `ContractError` that says what was read, and the
caller adds the node.
"""

from __future__ import annotations

import inspect
from typing import Any, Final, TypeGuard, TypeVar

from torvyn.errors import ContractError

_Kind = TypeVar("_Kind")

_NAME: Final[Any] = type.__dict__["__name__"]
_mro_of: Final[Any] = type.__dict__["__mro__"].__get__
_vars_of: Final[Any] = type.__dict__["__dict__"].__get__


_REQUIRED: Final = object()
"""The default of an attribute that must be there."""
_ABSENT: Final = object()


def is_class(thing: object) -> TypeGuard[type[Any]]:
    """Whether it is a class. `isinstance` would read `__class__`, which may be the user's."""
    return issubclass(type(thing), type)


def is_instance(thing: object, kind: type[_Kind]) -> TypeGuard[_Kind]:
    """Whether its class is `kind` or derived from it, whatever `__class__` says."""
    return issubclass(type(thing), kind)


def class_name(thing: object) -> str:
    """The name of a class or of an object's class, whatever its metaclass says."""
    name: str = _NAME.__get__(thing if is_class(thing) else type(thing))
    return name


def safe_str(error: object) -> str:
    """`str(error)`, which may be a method of the user's that fails."""
    try:
        return str(error)
    except Exception as second:
        return f"<its text cannot be read: __str__ raised {class_name(second)}>"


def describe_error(error: BaseException) -> str:
    """`ValueError: not a number`, or the class alone when there is no text."""
    text = safe_str(error)
    return f"{class_name(error)}: {text}" if text else class_name(error)


def safe_repr(thing: object) -> str:
    """Its `repr`, or its type when that fails."""
    try:
        text = repr(thing)
    except Exception:
        return f"an object of type {class_name(thing)}"
    return text if len(text) <= 200 else f"{text[:200]}..."


def module_name(cls: type[Any]) -> Any:
    """The name of the module that defines a class."""
    return _vars_of(cls).get("__module__")


def class_attribute(cls: type[Any], name: str, default: Any = None) -> Any:
    """An attribute as it was written in a class or one of its bases; no code of theirs runs."""
    for base in _mro_of(cls):
        space = _vars_of(base)
        if name in space:
            return space[name]
    return default


def defines(thing: object, name: str) -> bool:
    """Whether its class, or one of its bases, has an attribute of that name."""
    return class_attribute(thing if is_class(thing) else type(thing), name, _ABSENT) is not _ABSENT


def has_attribute(thing: object, name: str) -> bool:
    return read_attribute(thing, name, _ABSENT) is not _ABSENT


def read_attribute(thing: object, name: str, default: Any = _REQUIRED) -> Any:
    """An attribute of a component; raises `ContractError` when its own code raises."""
    try:
        if default is not _REQUIRED:
            # Python raises nothing for a plain object without the attribute, which is the rule.
            value = getattr(thing, name, _ABSENT)
            if value is not _ABSENT:
                return value
            if not defines(thing, name):
                return default
        return getattr(thing, name)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        is_defined = defines(thing, name)
        if isinstance(error, AttributeError) and not is_defined:
            raise ContractError(
                "contract.bad-attribute", f"`{class_name(thing)}` has no `{name}`"
            ) from error
        raise _unreadable(thing, name, error, is_defined) from error


def _unreadable(thing: object, name: str, error: BaseException, is_defined: bool) -> ContractError:
    hint = f"`{name}` is read when the flow is linked or starts; it must not raise"
    if not is_defined:
        hint = "`__getattr__` must raise AttributeError for names that it does not know"
    message = f"reading `{name}` of `{class_name(thing)}` raised {describe_error(error)}"
    return ContractError("contract.bad-attribute", message, hint=hint)


def read_text_attribute(component: object, name: str) -> str | None:
    """An attribute that is a str, or None when nothing is set."""
    value = read_attribute(component, name, None)
    if value is None or type(value) is str:
        return value
    message = f"`{name}` of `{class_name(component)}` is {_shown(value)}, not a str"
    raise ContractError("contract.bad-attribute", message)


def bound_method(component: object, name: str) -> Any:
    """A bound method; raises `ContractError` when there is something else under its name."""
    method = read_attribute(component, name)
    if not callable(method):
        message = f"`{name}` of `{class_name(component)}` is {_shown(method)}, not a method"
        raise ContractError("contract.bad-attribute", message)
    return method


def iterator_of(component: object) -> Any:
    """What `__iter__` of a source gives; raises `ContractError` when that is no iterator."""
    made = bound_method(component, "__iter__")()
    if not defines(made, "__next__"):
        hint = "write `yield` in `__iter__`, or return `iter(...)` of what you have"
        raise _no_iterator("__iter__", "an iterator", made, hint)
    return made


def async_iterator_of(component: object) -> Any:
    """The same for `__aiter__`."""
    made = bound_method(component, "__aiter__")()
    if not defines(made, "__anext__"):
        if inspect.iscoroutine(made):
            made.close()
        hint = "make `__aiter__` an `async def` with `yield`"
        raise _no_iterator("__aiter__", "an async iterator", made, hint)
    return made


def _no_iterator(method: str, expected: str, made: object, hint: str) -> ContractError:
    message = f"`{method}` returned {_shown(made)}, expected {expected}"
    return ContractError("contract.wrong-result", message, hint=hint)


def _shown(thing: object) -> str:
    return "None" if thing is None else _article(class_name(thing))


def _article(name: str) -> str:
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


def set_node(component: object, node: object) -> None:
    """Sets the running node of a component, also of one that does not let itself be changed."""
    try:
        component._node = node  # type: ignore[attr-defined]
    except Exception:
        object.__setattr__(component, "_node", node)


def set_context(component: object, context: object) -> None:
    """The same for what all elements of the flow share."""
    try:
        component._context = context  # type: ignore[attr-defined]
    except Exception:
        object.__setattr__(component, "_context", context)
