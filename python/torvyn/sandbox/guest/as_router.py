"""A Python router as `torvyn:filtering/router`."""

from __future__ import annotations

from typing import Any

from torvyn.sandbox.guest import adapter
from torvyn.sandbox.guest.adapter import Lifecycle

__all__ = ["Lifecycle", "Router"]


def route(element: Any) -> list[str]:
    answer = adapter.component.route(element)
    return [answer] if isinstance(answer, str) else list(answer or ())


class Router:
    def route(self, element: Any) -> list[str]:
        return adapter.lend(route, element)
