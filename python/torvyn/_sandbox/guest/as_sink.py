"""A Python sink as `torvyn:streaming/sink`."""

from __future__ import annotations

import json
from typing import Any

from wit_world.imports import details, types  # type: ignore[import-not-found]

from torvyn._contract.signals import End
from torvyn._sandbox.guest import adapter
from torvyn._sandbox.guest.adapter import Lifecycle

__all__ = ["Lifecycle", "Sink"]


def push(element: Any) -> Any:
    signal = adapter.signal_of(adapter.call_method("push", element))
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
