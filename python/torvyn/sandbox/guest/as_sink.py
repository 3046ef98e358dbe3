"""A Python sink as `torvyn:streaming/sink`."""

from __future__ import annotations

from typing import Any

from wit_world.imports import types  # type: ignore[import-not-found]

from torvyn.contract import End, Signal
from torvyn.sandbox.guest import adapter
from torvyn.sandbox.guest.adapter import Lifecycle

__all__ = ["Lifecycle", "Sink"]


def push(element: Any) -> Any:
    signal = adapter.component.push(element) or Signal.READY
    return types.BackpressureSignal[signal.name]


def complete() -> None:
    adapter.component.complete(End())


class Sink:
    def push(self, element: Any) -> Any:
        return adapter.lend(push, element)

    def complete(self) -> None:
        adapter.guarded(complete)
