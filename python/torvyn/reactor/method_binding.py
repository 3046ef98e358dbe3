"""Binding: the methods of an inline component, read once and before the first turn.

The native core calls what is bound here and never looks at the component itself, so an attribute
that raises, or an `__iter__` that gives no iterator, is found at the start, with its node.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from torvyn.contract import Component
from torvyn.contract.inspection import bound_method, has_attribute, iterator_of
from torvyn.contract.roles import METHODS, OPTIONAL_METHODS


class IteratedSource:
    """A source that is iterated: its iterator, and what it is told of back-pressure."""

    def __init__(self, items: Any, notify_backpressure: Any) -> None:
        self._items = items
        self.notify_backpressure = notify_backpressure

    def __iter__(self) -> Any:
        return self._items


def bind(component: Component, role: str) -> Any:
    """What the native core calls in place of the component."""
    beside = {name: bound_method(component, name) for name in OPTIONAL_METHODS[role]}
    if role == "source" and has_attribute(component, "__iter__"):
        return IteratedSource(iterator_of(component), **beside)
    main = METHODS[role]
    return SimpleNamespace(**{main: bound_method(component, main)}, **beside)
