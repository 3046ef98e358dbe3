"""Sources and sinks for flows with disk edges."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

import torvyn
from torvyn import Element, Output


class AckSource(torvyn.Source):
    """Produces items and counts acknowledgements."""

    def __init__(self, items: Iterable[Any]) -> None:
        super().__init__()
        self._items = iter(items)
        self.sent = self.acknowledged = 0

    def pull(self) -> str | bytes | Output | None:
        item: Any = next(self._items, None)
        self.sent += item is not None
        return item

    def acknowledge(self, count: int) -> None:
        self.acknowledged += count
        assert self.acknowledged <= self.sent


class GatedSink(torvyn.Sink):
    """Accepts `free` elements, then blocks until it is opened or torn down."""

    run = "thread"

    def __init__(self, free: int = 0) -> None:
        super().__init__()
        self.free = free
        self.texts: list[str] = []
        self.elements: list[Element] = []
        self.gate = threading.Event()
        self.is_blocked = threading.Event()

    def push(self, element: Element) -> None:
        if len(self.texts) >= self.free and not self.gate.is_set():
            self.is_blocked.set()
            self.gate.wait(20)
        self.texts.append(element.text)
        self.elements.append(element)


class SlowSink(GatedSink):
    def push(self, element: Element) -> None:
        time.sleep(0.001)
        super().push(element)


def disk_flow(source: Any, sink: Any, *, name: str = "main", **options: Any) -> torvyn.Flow:
    flow = torvyn.Flow(name=name)
    flow.add("in", source)
    flow.add("out", sink if isinstance(sink, torvyn.Sink) else torvyn.sink(sink))
    flow.connect("in", "out", carrier="disk", **options)
    return flow


def check_account(flow: torvyn.Flow) -> None:
    """The laws of statistics hold for every node and edge."""
    for edge in flow.statistics.edges:
        assert edge.entered == edge.taken + edge.dropped + edge.unread, edge
        assert min(edge.entered, edge.taken, edge.dropped, edge.unread) >= 0, edge
    for node in flow.statistics.nodes.values():
        done = node.passed + node.filtered + node.failed + node.dead_lettered + node.absorbed
        assert node.received == done + node.unread, node


def wait_until(condition: Callable[[], bool], timeout_s: float = 20) -> None:
    end_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end_s, "the condition did not become true"
        time.sleep(0.005)
