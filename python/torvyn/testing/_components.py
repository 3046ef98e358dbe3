"""Components for tests: sources that count or follow a script, sinks that collect or stall."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torvyn._contract.element import Element, Output
from torvyn._contract.roles import Sink, Source
from torvyn._contract.signals import End, Pending, Signal

Item = str | bytes | Output | Pending | End | Exception


class ScriptedSource(Source):
    """Follows a script: it sends each item, waits at `PENDING`, ends at `End`, raises an exception.

    If all items are text, `variant="native"` runs it in native code, which does not update `sent`
    and `signals`.
    """

    def __init__(self, items: Iterable[Item] = (), *, end: End | None = None) -> None:
        super().__init__()
        self.items: list[Item] = list(items)
        self.sent = 0
        """The number of items of the script that were sent."""
        self.signals: list[Signal] = []
        """The back-pressure signals received."""
        self.end = end

    def init(self, config: str) -> None:
        self.sent = 0
        self.signals.clear()

    def pull(self) -> str | bytes | Output | Pending | End | None:
        if self.sent == len(self.items):
            return self.end
        item = self.items[self.sent]
        self.sent += 1
        if isinstance(item, Exception):
            raise item
        return item

    def notify_backpressure(self, signal: Signal) -> None:
        self.signals.append(signal)


class CountingSource(Source):
    """Sends `0`, `1`, `2`, ... without end, or `total` of them."""

    def __init__(self, total: int | None = None) -> None:
        super().__init__()
        self.total = total
        self.sent = 0
        self.signals: list[Signal] = []
        """The back-pressure signals received."""

    def init(self, config: str) -> None:
        self.sent = 0
        self.signals.clear()

    def pull(self) -> str | None:
        if self.sent == self.total:
            return None
        self.sent += 1
        return str(self.sent - 1)

    def notify_backpressure(self, signal: Signal) -> None:
        self.signals.append(signal)


class CollectingSink(Sink):
    """Keeps every element and the end of the stream."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[Element] = []
        self.end: End | None = None
        """How the stream ended; None if it has not ended, has failed or was cancelled."""

    def init(self, config: str) -> None:
        self.elements.clear()
        self.end = None

    def push(self, element: Element) -> Signal | None:
        self.elements.append(element)
        return None

    def complete(self, end: End) -> Any:
        self.end = end

    @property
    def texts(self) -> list[str]:
        return [element.text for element in self.elements]


class StallingSink(CollectingSink):
    """Takes `after` elements, then pauses at the next one until `release` is called."""

    def __init__(self, after: int = 0) -> None:
        super().__init__()
        self.after = after
        self.is_stalled = False

    def init(self, config: str) -> None:
        super().init(config)
        self.is_stalled = False

    def push(self, element: Element) -> Signal | None:
        self.elements.append(element)
        self.is_stalled = len(self.elements) == self.after + 1
        return Signal.PAUSE if self.is_stalled else None

    def release(self, after: int | None = None) -> None:
        """Resumes, without end or for `after` more elements."""
        self.after = -1 if after is None else len(self.elements) + after
        self.is_stalled = False
        self.resume()
