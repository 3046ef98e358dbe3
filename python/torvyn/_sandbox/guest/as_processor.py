"""A Python processor as `torvyn:streaming/expander`, which returns any number of outputs."""

from __future__ import annotations

from typing import Any

from torvyn._sandbox.guest import adapter
from torvyn._sandbox.guest.adapter import Lifecycle

__all__ = ["Expander", "Lifecycle"]


def process(element: Any) -> list[Any]:
    return adapter.outputs(adapter.call_method("process", element))


def flush() -> list[Any]:
    return adapter.outputs(adapter.component.flush())


class Expander:
    def process(self, element: Any) -> list[Any]:
        return adapter.call_with_element(process, element)

    def flush(self) -> list[Any]:
        return adapter.call_component(flush)
