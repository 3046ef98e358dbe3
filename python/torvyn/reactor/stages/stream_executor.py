"""Runs a stream function: one generator over the whole input, which may read ahead of its output.

An element is current from its read to the next read. A failure in between belongs to that element,
and the function starts again with the next one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Iterator
from typing import Any

from torvyn._contract.enums import TaskKind
from torvyn._contract.inspection import has_attribute
from torvyn._contract.roles import Component
from torvyn._native import Port
from torvyn.reactor.stages.executor import StageExecutor, Task
from torvyn.reactor.stages.host import Host, run_blocking
from torvyn.reactor.stages.lockstep import in_lockstep


class StreamExecutor(StageExecutor):
    takes_end = True

    def __init__(self, component: Component, role: str, port: Port, host: Host) -> None:
        super().__init__(component, role, port, host)
        self._tasks: deque[Task] = deque()
        """Taken from the port and not read yet; survives a restart of the function."""
        self._is_answer_due = False
        self._has_ended = False

    async def _run(self) -> None:
        while await self._run_once():
            # The function starts again only when there is something to read.
            if not self._tasks and not await self._take_more():
                return

    async def _run_once(self) -> bool:
        """Runs the function over the rest of the input. True: it failed on an element."""
        stream = self._stream()
        try:
            if not await self.emit_all(stream):
                return False
        except GeneratorExit:
            raise
        except BaseException as error:
            return self._fail(self.host.failure_of(error))
        if self._is_answer_due:
            # It returned before its input ended: its last element is done.
            self._is_answer_due = False
            self.port.answer(None)
        self.port.finish(self.end)
        return False

    def _stream(self) -> Any:
        function = self.component.stream_function
        if self.host.is_async:
            return function(self._read_async())
        if self.host.is_stepped:
            return in_lockstep(function, self._read_async())
        return function(self._read())

    def _fail(self, failure: BaseException) -> bool:
        if not self._is_answer_due:
            self.port.fail_last(failure)
            return False
        self._is_answer_due = False
        if not self.port.fail(failure):
            self._drop_elements()
        return not self.port.stopped

    async def _take_more(self) -> bool:
        self._tasks.extend(tasks := await self.tasks())
        return bool(tasks)

    def _read(self) -> Iterator[Any]:
        while not self._has_ended and (self._tasks or run_blocking(self._take_more())):
            yield from self._read_tasks()

    async def _read_async(self) -> AsyncIterator[Any]:
        while not self._has_ended and (self._tasks or await self._take_more()):
            for element in self._read_tasks():
                if self.host.is_stepped:
                    await self.host.step()
                yield element

    def _read_tasks(self) -> Iterator[Any]:
        """The elements of the tasks; each is answered when the next one is read."""
        while self._tasks and not self._has_ended:
            kind, value = self._tasks.popleft()
            if kind is TaskKind.FLUSH:
                self._has_ended = True
                if has_attribute(self.component, "input_end"):
                    self.component.input_end = value
            if kind is not TaskKind.ELEMENT:
                continue
            self._is_answer_due = True
            yield value
            self._is_answer_due = False
            if not self.port.answer(None):
                self._drop_elements()

    def _drop_elements(self) -> None:
        """An interrupt has dropped the elements that were taken with the last answered one."""
        self._tasks = deque(task for task in self._tasks if task[0] is not TaskKind.ELEMENT)
