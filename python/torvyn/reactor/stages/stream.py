"""Streams: one generator over the whole input, which reads ahead of what it yields as it likes.

An element is in the function's hand from when it was read until the next is asked for: a failure in
between is that element's, and the function is started again for what follows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Iterator
from typing import Any

from torvyn._native import Port
from torvyn.contract import Component
from torvyn.contract.inspection import has_attribute
from torvyn.reactor.stages.host import Host, run_blocking
from torvyn.reactor.stages.lockstep import in_lockstep
from torvyn.reactor.stages.procedure import Procedure, Task


class StreamProcedure(Procedure):
    takes_end = True

    def __init__(self, component: Component, role: str, port: Port, host: Host) -> None:
        super().__init__(component, role, port, host)
        self._taken: deque[Task] = deque()
        """Taken from the port and not read yet; outlives a restart of the function."""
        self._in_hand = False
        self._has_ended = False

    async def _work(self) -> None:
        while await self._run_once():
            # The function starts again only when there is something for it to read.
            if not self._taken and not await self._take_more():
                return

    async def _run_once(self) -> bool:
        """Runs the function over what follows. True: it failed on an element."""
        stream = self._stream()
        try:
            if not await self.emit_all(stream):
                return False
        except GeneratorExit:
            raise
        except BaseException as error:
            return self._failed(self.host.failure_of(error))
        if self._in_hand:
            # It returned before its input ended: what it read last is done with.
            self._in_hand = False
            self.port.answer(None)
        self.port.finish(self.end)
        return False

    def _stream(self) -> Any:
        function = self.component.stream_function
        if self.host.awaits:
            return function(self._read_async())
        if self.host.steps:
            return in_lockstep(function, self._read_async())
        return function(self._read())

    def _failed(self, failure: BaseException) -> bool:
        if not self._in_hand:
            self.port.fail_last(failure)
            return False
        self._in_hand = False
        if not self.port.fail(failure):
            self._drop_taken()
        return not self.port.stopped

    async def _take_more(self) -> bool:
        self._taken.extend(tasks := await self.tasks())
        return bool(tasks)

    def _read(self) -> Iterator[Any]:
        while not self._has_ended and (self._taken or run_blocking(self._take_more())):
            yield from self._read_taken()

    async def _read_async(self) -> AsyncIterator[Any]:
        while not self._has_ended and (self._taken or await self._take_more()):
            for element in self._read_taken():
                if self.host.steps:
                    await self.host.step()
                yield element

    def _read_taken(self) -> Iterator[Any]:
        """What was taken, element by element; each is answered when the next is asked for."""
        while self._taken and not self._has_ended:
            kind, value = self._taken.popleft()
            if kind == "flush":
                self._has_ended = True
                if has_attribute(self.component, "input_end"):
                    self.component.input_end = value
            if kind != "element":
                continue
            self._in_hand = True
            yield value
            self._in_hand = False
            if not self.port.answer(None):
                self._drop_taken()

    def _drop_taken(self) -> None:
        """An interrupt has dropped what was taken with the element that was just answered."""
        self._taken = deque(task for task in self._taken if task[0] != "element")
