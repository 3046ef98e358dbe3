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
        raise adapter.wrong(answer, "names of its declared ports")
    names = list(answer)
    for name in names:
        if not isinstance(name, str):
            raise adapter.wrong(name, "names of its declared ports")
    return names


class Router:
    def route(self, element: Any) -> list[str]:
        return adapter.lend(route, element)
