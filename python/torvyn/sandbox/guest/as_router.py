"""A Python router as `torvyn:filtering/router`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torvyn.sandbox.guest import adapter
from torvyn.sandbox.guest.adapter import Lifecycle

__all__ = ["Lifecycle", "Router"]


def route(element: Any) -> list[str]:
    answer = adapter.component.route(element)
    if isinstance(answer, str):
        return [answer]
    if not isinstance(answer, Iterable):
        raise adapter.wrong(answer, "port names that it declares")
    names = list(answer)
    for name in names:
        if not isinstance(name, str):
            raise adapter.wrong(name, "port names that it declares")
    return names


class Router:
    def route(self, element: Any) -> list[str]:
        return adapter.lend(route, element)
