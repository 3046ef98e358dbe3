"""A Python source as `torvyn:streaming/polled-source`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from wit_world.exports import polled_source  # type: ignore[import-not-found]

from torvyn.contract import End, Pending, Signal
from torvyn.sandbox.guest import adapter
from torvyn.sandbox.guest.adapter import Lifecycle

__all__ = ["Lifecycle", "PolledSource"]

_items: Iterator[Any] | None = None


def pull() -> Any:
    global _items
    source = adapter.component
    if hasattr(type(source), "__iter__"):
        _items = iter(source) if _items is None else _items
        answer = next(_items, None)
    else:
        answer = source.pull()
    if answer is None or isinstance(answer, End):
        return polled_source.Polled_End()
    if isinstance(answer, Pending):
        return polled_source.Polled_Pending()
    return polled_source.Polled_Element(adapter.output(answer))


class PolledSource:
    def pull(self) -> Any:
        return adapter.guarded(pull)

    def notify_backpressure(self, signal: Any) -> None:
        adapter.component.notify_backpressure(Signal[signal.name])
