"""A Python router as `torvyn:filtering/router`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torvyn._sandbox.guest import adapter
from torvyn._sandbox.guest.adapter import Lifecycle

__all__ = ["Lifecycle", "Router"]


def route(element: Any) -> list[str]:
    result = adapter.component.route(element)
    if isinstance(result, str):
        return [result]
    if not isinstance(result, Iterable):
        raise adapter.wrong_result(result, "names of its declared ports")
    names = list(result)
    for name in names:
        if not isinstance(name, str):
            raise adapter.wrong_result(name, "names of its declared ports")
    return names


class Router:
    def route(self, element: Any) -> list[str]:
        return adapter.call_with_element(route, element)
