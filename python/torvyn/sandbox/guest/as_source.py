"""A Python source as `torvyn:streaming/polled-source`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from wit_world.exports import polled_source  # type: ignore[import-not-found]
from wit_world.imports import details  # type: ignore[import-not-found]

from torvyn.contract import End, Pending, Signal
from torvyn.sandbox.guest import adapter
from torvyn.sandbox.guest.adapter import Lifecycle

__all__ = ["Lifecycle", "PolledSource"]

LONGEST_NS: Final = 1 << 63

_items: Iterator[Any] | None = None


def pull() -> Any:
    answer = _next()
    if answer is None or isinstance(answer, End):
        if answer is not None:
            details.set_ending(_ending(answer))
        return polled_source.Polled_End()
    if isinstance(answer, Pending):
        wait_ns = adapter.patience_ns
        if answer.after_s is not None:
            wait_ns = int(min(answer.after_s * 1e9, LONGEST_NS))
        if wait_ns is not None:
            details.ask_after(wait_ns)
        return polled_source.Polled_Pending()
    expected = "str, bytes, Output, None, PENDING or End"
    return polled_source.Polled_Element(adapter.output(answer, expected))


def _next() -> Any:
    global _items
    source = adapter.component
    if not hasattr(type(source), "__iter__"):
        return source.pull()
    _items = iter(source) if _items is None else _items
    try:
        return next(_items)
    except StopIteration as stop:
        # A generator may return its end.
        return stop.value


def _ending(end: End) -> Any:
    usage = None if end.usage is None else json.dumps(dict(end.usage), default=str)
    return details.Ending(end.finish_reason, end.reason, end.matched_stop, usage)


class PolledSource:
    def pull(self) -> Any:
        return adapter.guarded(pull)

    def notify_backpressure(self, signal: Any) -> None:
        adapter.heed(adapter.component.notify_backpressure, Signal[signal.name])
