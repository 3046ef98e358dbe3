"""Binds the methods of an inline component, once, before the first turn.

The native core calls these methods and never reads the component itself. So an attribute that
raises, or an `__iter__` that returns no iterator, fails at the start, and the error names the node.
"""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

from torvyn._contract.enums import Role
from torvyn._contract.inspection import bound_method, has_attribute, iterator_of
from torvyn._contract.roles import (
    METHODS,
    OPTIONAL_METHODS,
    TIMER_METHODS,
    Component,
    acknowledges,
    batch_method_of,
    counts_held_elements,
    defines_method,
    has_timer,
)
from torvyn._link.component_traits import inputs_of
from torvyn.reactor.run.cpu_throttle import CpuThrottle


class IterableSource:
    """A source that is iterated: its iterator and its other methods."""

    def __init__(self, items: Any, **methods: Any) -> None:
        self._items = items
        self.__dict__.update(methods)

    def __iter__(self) -> Any:
        return self._items


def bind(component: Component, role: str, throttle: CpuThrottle | None = None) -> Any:
    """The object that the native core calls in place of the component."""
    others = OPTIONAL_METHODS[role] + (TIMER_METHODS if has_timer(component, role) else ())
    optional = {name: bound_method(component, name) for name in others}
    if role == Role.SOURCE and acknowledges(component):
        optional["acknowledge"] = bound_method(component, "acknowledge")
    if counts_held_elements(component, role):
        optional["held_elements"] = bound_method(component, "held_elements")
    if inputs_of(component, role):
        optional["set_input"] = partial(setattr, component, "input")
    if role == Role.SOURCE and has_attribute(component, "__iter__"):
        items = iterator_of(component)
        return IterableSource(throttle.throttle_items(items) if throttle else items, **optional)
    batch_method = batch_method_of(component, role)
    names = [] if batch_method is None else [batch_method]
    if batch_method is None or defines_method(component, role, METHODS[role]):
        names.append(METHODS[role])
    for name in names:
        method = bound_method(component, name)
        optional[name] = method if throttle is None else throttle.throttle_pull(method)
    return SimpleNamespace(**optional)
