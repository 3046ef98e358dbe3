"""A Python aggregator as `torvyn:aggregation/aggregator`."""

from __future__ import annotations

from typing import Any

from torvyn._sandbox.guest import adapter
from torvyn._sandbox.guest.adapter import Lifecycle

__all__ = ["Aggregator", "Lifecycle"]


def ingest(element: Any) -> Any:
    return adapter.one_output(adapter.call_method("ingest", element))


def flush() -> list[Any]:
    return adapter.outputs(adapter.component.flush())


class Aggregator:
    def ingest(self, element: Any) -> Any:
        return adapter.call_with_element(ingest, element)

    def flush(self) -> list[Any]:
        return adapter.call_component(flush)
