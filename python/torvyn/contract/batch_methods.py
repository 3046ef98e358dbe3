"""Which of its role's two methods a component has: the one for an element, the one for a batch."""

from __future__ import annotations

from typing import Final

from torvyn.contract.inspection import class_attribute, namespaces
from torvyn.contract.roles import BATCH_METHODS, METHODS, ROLES, Component

_OF_ROLES: Final = {role: class_attribute(ROLES[role], name) for role, name in METHODS.items()}
"""The methods of the roles themselves, which only raise."""


def batch_method_of(component: type[Component] | Component, role: str) -> str | None:
    """The name of its batch method. None if it has none, or if a class closer to it overrides only
    the role's method: then that one must be called."""
    name = BATCH_METHODS.get(role)
    for namespace in namespaces(component):
        if name in namespace:
            return name
        if METHODS[role] in namespace:
            return None
    return None


def has_single_method(component: type[Component] | Component, role: str) -> bool:
    """Whether it has its role's method, and not only the batch method."""
    name = METHODS[role]
    found = next((names[name] for names in namespaces(component) if name in names), None)
    return found is not _OF_ROLES[role]
