"""A sync generator function as an async one, for hosts that suspend.

A generator cannot be suspended while it reads, so it runs on a thread of its own, in lockstep: at
any time one side runs and the other waits, so the caller determines the order.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from torvyn._io.line_output import line_prefix

Message = tuple[str, Any]


class _Closed(BaseException):
    """The caller has closed the generator."""


async def in_lockstep(
    function: Callable[[Iterator[Any]], Any], elements: AsyncIterator[Any]
) -> AsyncIterator[Any]:
    """Yields what the function yields for the elements."""
    thread = _GeneratorThread(function)
    try:
        kind, value = thread.resume("start", None)
        while kind != "end":
            if kind == "failed":
                raise value
            if kind == "item":
                yield value
                kind, value = thread.resume("next", None)
                continue
            try:
                element = await anext(elements)
            except StopAsyncIteration:
                kind, value = thread.resume("end", None)
            else:
                kind, value = thread.resume("element", element)
    finally:
        thread.close()


class _GeneratorThread:
    """Runs the generator and exchanges messages with the caller."""

    def __init__(self, function: Callable[[Iterator[Any]], Any]) -> None:
        self._function = function
        self._inbox: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._outbox: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._line_prefix = line_prefix.get()
        self._thread = threading.Thread(target=self._run, name="torvyn-lockstep", daemon=True)
        self._thread.start()

    def resume(self, kind: str, value: Any) -> Message:
        self._inbox.put((kind, value))
        return self._outbox.get()

    def close(self) -> None:
        self._inbox.put(("close", None))
        self._thread.join()

    def _run(self) -> None:
        line_prefix.set(self._line_prefix)
        self._inbox.get()
        try:
            for item in self._function(self._read()):
                self._send("item", item)
        except _Closed:
            return
        except BaseException as error:
            self._outbox.put(("failed", error))
        else:
            self._outbox.put(("end", None))

    def _read(self) -> Iterator[Any]:
        while (message := self._send("need", None))[0] == "element":
            yield message[1]

    def _send(self, kind: str, value: Any) -> Message:
        self._outbox.put((kind, value))
        message = self._inbox.get()
        if message[0] == "close":
            raise _Closed
        return message
