"""A sync generator function as an async one, for hosts that suspend.

A generator cannot be suspended while it reads, so it runs on a thread of its own, in lockstep: one
of the two sides runs, the other waits for it. The order of everything is the caller's.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

Said = tuple[str, Any]


class _Left(BaseException):
    """The reader of the outputs has gone."""


async def in_lockstep(
    function: Callable[[Iterator[Any]], Any], elements: AsyncIterator[Any]
) -> AsyncIterator[Any]:
    """What the function yields over the elements."""
    side = _Side(function)
    try:
        kind, value = side.resume("begin", None)
        while kind != "end":
            if kind == "failed":
                raise value
            if kind == "item":
                yield value
                kind, value = side.resume("go on", None)
                continue
            try:
                element = await anext(elements)
            except StopAsyncIteration:
                kind, value = side.resume("no more", None)
            else:
                kind, value = side.resume("element", element)
    finally:
        side.leave()


class _Side:
    """The generator's side."""

    def __init__(self, function: Callable[[Iterator[Any]], Any]) -> None:
        self._function = function
        self._heard: queue.SimpleQueue[Said] = queue.SimpleQueue()
        self._said: queue.SimpleQueue[Said] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="torvyn-lockstep", daemon=True)
        self._thread.start()

    def resume(self, kind: str, value: Any) -> Said:
        self._heard.put((kind, value))
        return self._said.get()

    def leave(self) -> None:
        self._heard.put(("leave", None))
        self._thread.join()

    def _run(self) -> None:
        self._heard.get()
        try:
            for item in self._function(self._read()):
                self._say("item", item)
        except _Left:
            return
        except BaseException as error:
            self._said.put(("failed", error))
        else:
            self._said.put(("end", None))

    def _read(self) -> Iterator[Any]:
        while (heard := self._say("need", None))[0] == "element":
            yield heard[1]

    def _say(self, kind: str, value: Any) -> Said:
        self._said.put((kind, value))
        heard = self._heard.get()
        if heard[0] == "leave":
            raise _Left
        return heard
