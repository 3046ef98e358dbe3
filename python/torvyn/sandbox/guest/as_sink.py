"""A Python sink as `torvyn:streaming/sink`."""

from __future__ import annotations

import json
from typing import Any

from wit_world.imports import details, types  # type: ignore[import-not-found]

from torvyn.contract import End, Signal
from torvyn.sandbox.guest import adapter
from torvyn.sandbox.guest.adapter import Lifecycle

__all__ = ["Lifecycle", "Sink"]


def push(element: Any) -> Any:
    result = adapter.component.push(element)
    signal = Signal.READY if result is None else result
    if not isinstance(signal, Signal):
        raise adapter.wrong_result(result, "None or Signal")
    if signal is Signal.PAUSE and adapter.poll_delay_ns is not None:
        details.ask_after(adapter.poll_delay_ns)
    return types.BackpressureSignal[signal.name]


def complete() -> None:
    end = details.ended()
    usage = None if end.usage is None else json.loads(end.usage)
    adapter.component.complete(End(end.finish_reason, usage, end.matched_stop, end.reason))


class Sink:
    def push(self, element: Any) -> Any:
        return adapter.call_with_element(push, element)

    def complete(self) -> None:
        adapter.call_component(complete)
