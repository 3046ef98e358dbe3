"""A Python processor as `torvyn:streaming/processor`."""

from __future__ import annotations

from typing import Any

from wit_world.imports import types  # type: ignore[import-not-found]

from torvyn.sandbox.guest import adapter
from torvyn.sandbox.guest.adapter import Lifecycle

__all__ = ["Lifecycle", "Processor"]


def process(element: Any) -> Any:
    made = adapter.one_output(adapter.component.process(element))
    return types.ProcessResult_Drop() if made is None else types.ProcessResult_Emit(made)


class Processor:
    def process(self, element: Any) -> Any:
        return adapter.lend(process, element)
