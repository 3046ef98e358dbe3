"""Binds the methods of an inline component, once, before the first turn.

The native core calls these methods and never reads the component itself. So an attribute that
raises, or an `__iter__` that returns no iterator, fails at the start, and the error names the node.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from torvyn.contract import Component
from torvyn.contract.batch_methods import batch_method_of, has_single_method
from torvyn.contract.enums import Role
from torvyn.contract.inspection import bound_method, has_attribute, iterator_of
from torvyn.contract.roles import METHODS, OPTIONAL_METHODS


class IterableSource:
    """A source that is iterated: its iterator and its `notify_backpressure`."""

    def __init__(self, items: Any, notify_backpressure: Any) -> None:
        self._items = items
        self.notify_backpressure = notify_backpressure

    def __iter__(self) -> Any:
        return self._items


def bind(component: Component, role: str) -> Any:
    """The object that the native core calls in place of the component."""
    optional = {name: bound_method(component, name) for name in OPTIONAL_METHODS[role]}
    if role == Role.SOURCE and has_attribute(component, "__iter__"):
        return IterableSource(iterator_of(component), **optional)
    batch_method = batch_method_of(component, role)
    if batch_method is not None:
        optional[batch_method] = bound_method(component, batch_method)
    main = METHODS[role]
    if batch_method is None or has_single_method(component, role):
        optional[main] = bound_method(component, main)
    return SimpleNamespace(**optional)
