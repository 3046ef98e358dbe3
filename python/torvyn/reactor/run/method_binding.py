"""Binds the methods of an inline component, once, before the first turn.

The native core calls these methods and never reads the component itself. So an attribute that
raises, or an `__iter__` that returns no iterator, fails at the start, and the error names the node.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from torvyn.contract import Component
from torvyn.contract.enums import Role
from torvyn.contract.inspection import bound_method, has_attribute, iterator_of
from torvyn.contract.roles import METHODS, OPTIONAL_METHODS, TIMER_METHODS
from torvyn.link.component_traits import has_timer


class IterableSource:
    """A source that is iterated: its iterator and its other methods."""

    def __init__(self, items: Any, **methods: Any) -> None:
        self._items = items
        self.__dict__.update(methods)

    def __iter__(self) -> Any:
        return self._items


def acknowledges(component: Component) -> bool:
    """Whether a source asks for acknowledgements."""
    return has_attribute(component, "acknowledge")


def bind(component: Component, role: str) -> Any:
    """The object that the native core calls in place of the component."""
    names = OPTIONAL_METHODS[role] + (TIMER_METHODS if has_timer(component, role) else ())
    optional = {name: bound_method(component, name) for name in names}
    if role == Role.SOURCE and acknowledges(component):
        optional["acknowledge"] = bound_method(component, "acknowledge")
    if role == Role.SOURCE and has_attribute(component, "__iter__"):
        return IterableSource(iterator_of(component), **optional)
    main = METHODS[role]
    return SimpleNamespace(**{main: bound_method(component, main)}, **optional)
