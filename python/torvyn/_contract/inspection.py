"""Reads users' objects safely. Torvyn inspects components only through this module.

A property or `__getattr__` may raise, `__class__` may lie, a metaclass may define `__name__`, and
`str()` of an exception may fail. Any such failure becomes a `ContractError` that says what was
read; the caller adds the node.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeGuard, TypeVar

from torvyn.errors import ContractError

_Kind = TypeVar("_Kind")

_NAME: Final[Any] = type.__dict__["__name__"]
_mro_of: Final[Any] = type.__dict__["__mro__"].__get__
_vars_of: Final[Any] = type.__dict__["__dict__"].__get__


_REQUIRED: Final = object()
"""The default for a required attribute."""
_ABSENT: Final = object()


def is_class(thing: object) -> TypeGuard[type[Any]]:
    """Whether it is a class. `isinstance` would read `__class__`, which users can override."""
    return issubclass(type(thing), type)


def is_instance(thing: object, kind: type[_Kind]) -> TypeGuard[_Kind]:
    """`isinstance` that ignores `__class__`."""
    return issubclass(type(thing), kind)


def class_name(thing: object) -> str:
    """The name of a class or of an object's class; ignores the metaclass."""
    name: str = _NAME.__get__(thing if is_class(thing) else type(thing))
    return name


def safe_str(error: object) -> str:
    """`str(error)`, or a note that `__str__` failed."""
    try:
        return str(error)
    except Exception as second:
        return f"<no text: __str__ raised {class_name(second)}>"


def describe_error(error: BaseException) -> str:
    """`ValueError: not a number`, or only the class if it has no text."""
    text = safe_str(error)
    return f"{class_name(error)}: {text}" if text else class_name(error)


def safe_repr(thing: object) -> str:
    """Its `repr`, shortened; its type if `repr` fails."""
    try:
        text = repr(thing)
    except Exception:
        return f"an object of type {class_name(thing)}"
    return text if len(text) <= 200 else f"{text[:200]}..."


def module_name(cls: type[Any]) -> Any:
    """The name of the module that defines a class."""
    return _vars_of(cls).get("__module__")


def class_attribute(cls: type[Any], name: str, default: Any = None) -> Any:
    """An attribute of a class or its bases, without running descriptors."""
    for base in _mro_of(cls):
        namespace = _vars_of(base)
        if name in namespace:
            return namespace[name]
    return default


def class_names(cls: type[Any]) -> list[str]:
    """The names that the class itself defines."""
    return [*_vars_of(cls)]


def own_attribute(thing: object, name: str) -> Any:
    """An attribute that was set on the object itself, or None; runs none of its code."""
    try:
        return object.__getattribute__(thing, "__dict__").get(name)
    except AttributeError:
        return None


def defines(thing: object, name: str) -> bool:
    """Whether its class or one of its bases has the attribute."""
    return class_attribute(thing if is_class(thing) else type(thing), name, _ABSENT) is not _ABSENT


def namespaces(component: object) -> Iterator[Mapping[str, Any]]:
    """The namespaces of an object or a class, the closest first."""
    is_object = not is_class(component)
    if is_object:
        yield object.__getattribute__(component, "__dict__")
    yield from map(_vars_of, _mro_of(type(component) if is_object else component))


def has_attribute(thing: object, name: str) -> bool:
    return read_attribute(thing, name, _ABSENT) is not _ABSENT


def read_attribute(thing: object, name: str, default: Any = _REQUIRED) -> Any:
    """An attribute of a component; raises `ContractError` if the component's code raises."""
    try:
        if default is not _REQUIRED:
            # The common case: no exception for a plain object without the attribute.
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
    hint = f"torvyn reads `{name}` when it links or starts the flow; it must not raise"
    if not is_defined:
        hint = "`__getattr__` must raise AttributeError for unknown names"
    message = f"reading `{name}` of `{class_name(thing)}` raised {describe_error(error)}"
    return ContractError("contract.bad-attribute", message, hint=hint)


def read_text_attribute(component: object, name: str) -> str | None:
    """An attribute that must be a str or None."""
    value = read_attribute(component, name, None)
    if value is None or type(value) is str:
        return value
    message = f"`{name}` of `{class_name(component)}` must be a str, not {_type_phrase(value)}"
    raise ContractError("contract.bad-attribute", message)


def bound_method(component: object, name: str) -> Any:
    """A bound method; raises `ContractError` if the attribute is not callable."""
    method = read_attribute(component, name)
    if not callable(method):
        message = (
            f"`{name}` of `{class_name(component)}` must be a method, not {_type_phrase(method)}"
        )
        raise ContractError("contract.bad-attribute", message)
    return method


def iterator_of(component: object) -> Any:
    """What `__iter__` of a source returns; raises `ContractError` if it is not an iterator."""
    iterator = bound_method(component, "__iter__")()
    if not defines(iterator, "__next__"):
        hint = "use `yield` in `__iter__`, or return `iter(...)`"
        raise _not_an_iterator("__iter__", "an iterator", iterator, hint)
    return iterator


def async_iterator_of(component: object) -> Any:
    """The same for `__aiter__`."""
    iterator = bound_method(component, "__aiter__")()
    if not defines(iterator, "__anext__"):
        if inspect.iscoroutine(iterator):
            iterator.close()
        hint = "make `__aiter__` an `async def` with `yield`"
        raise _not_an_iterator("__aiter__", "an async iterator", iterator, hint)
    return iterator


def _not_an_iterator(method: str, expected: str, value: object, hint: str) -> ContractError:
    message = f"`{method}` returned {_type_phrase(value)}, expected {expected}"
    return ContractError("contract.wrong-result", message, hint=hint)


def _type_phrase(thing: object) -> str:
    return "None" if thing is None else _article(class_name(thing))


def _article(name: str) -> str:
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


def set_attribute(component: object, name: str, value: object) -> None:
    """Sets an attribute of a component, even if its `__setattr__` raises."""
    try:
        setattr(component, name, value)
    except Exception:
        object.__setattr__(component, name, value)
