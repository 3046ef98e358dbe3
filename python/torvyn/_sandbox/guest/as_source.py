"""A Python source as `torvyn:streaming/polled-source`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from wit_world.exports import polled_source  # type: ignore[import-not-found]
from wit_world.imports import details  # type: ignore[import-not-found]

from torvyn._contract.roles import defines_method
from torvyn._contract.signals import End, Pending, Signal
from torvyn._sandbox.guest import adapter
from torvyn._sandbox.guest.adapter import Lifecycle
from torvyn.errors import ContractError

__all__ = ["Lifecycle", "PolledSource"]

MAX_DELAY_NS: Final = 1 << 63

_items: Iterator[Any] | None = None


def pull() -> Any:
    result = _next()
    if result is None or isinstance(result, End):
        if result is not None:
            details.set_ending(_ending(result))
        return polled_source.Polled_End()
    if isinstance(result, Pending):
        wait_ns = adapter.poll_delay_ns
        if result.after_s is not None:
            wait_ns = int(min(result.after_s * 1e9, MAX_DELAY_NS))
        if wait_ns is not None:
            details.ask_after(wait_ns)
        return polled_source.Polled_Pending()
    expected = "str, bytes, a dict, a dataclass, Output, None, PENDING or End"
    return polled_source.Polled_Element(adapter.output(result, expected))


def _next() -> Any:
    global _items
    source = adapter.component
    if not hasattr(type(source), "__iter__"):
        return source.pull() if defines_method(source, source.role, "pull") else _pull_one(source)
    _items = iter(source) if _items is None else _items
    try:
        return next(_items)
    except StopIteration as stop:
        # A generator may return an `End`.
        return stop.value


def _pull_one(source: Any) -> Any:
    """The next element of a source that has only the batch method."""
    result = source.pull_batch(1)
    if not isinstance(result, (list, tuple)):
        return result
    if len(result) != 1:
        message = f"`pull_batch` returned {len(result)} elements, but it was asked for one"
        raise ContractError("contract.wrong-result", message)
    return result[0]


def _ending(end: End) -> Any:
    usage = None if end.usage is None else json.dumps(dict(end.usage), default=str)
    return details.Ending(end.finish_reason, end.reason, end.matched_stop, usage)


class PolledSource:
    def pull(self) -> Any:
        return adapter.call_component(pull)

    def notify_backpressure(self, signal: Any) -> None:
        adapter.notify(adapter.component.notify_backpressure, Signal[signal.name])
