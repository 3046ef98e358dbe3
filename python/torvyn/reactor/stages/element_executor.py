"""Calls a component once per element, then to flush or to complete."""

from __future__ import annotations

import inspect
from typing import Any, Final

from torvyn._contract.enums import Role, TaskKind
from torvyn._contract.roles import METHODS
from torvyn._contract.signals import Signal
from torvyn.reactor.stages.executor import PLAIN, StageExecutor

_ELEMENT: Final = TaskKind.ELEMENT
STOPPED: Final = object()
"""In place of an answer: the flow stopped while the answer was being emitted."""


class ElementExecutor(StageExecutor):
    async def _run(self) -> None:
        method = getattr(self.component, METHODS[self.role])
        host, answer = self.host, self.port.answer
        counts_held = self.held_elements is not None
        is_coroutine = host.is_async and inspect.iscoroutinefunction(method)
        begin_call, is_stepped = host.begin_call, host.is_stepped
        while tasks := await self.tasks():
            is_wanted = True
            for kind, value in tasks:
                if kind is not _ELEMENT:
                    await self.finish(kind, value)
                    continue
                if not is_wanted:
                    continue
                if is_stepped:
                    await host.step()
                try:
                    result = method(value)
                    if is_coroutine:
                        begin_call()
                        result = await result
                    if type(result) not in PLAIN:
                        result = await self.expand(result)
                        if result is STOPPED:
                            return
                        if result is Signal.PAUSE and self.role == Role.SINK:
                            is_wanted = await self.pause()
                            continue
                except GeneratorExit as error:
                    self.fail_if_open(error)
                    raise
                except BaseException as error:
                    is_wanted = self.fail(error)
                else:
                    # False: an interrupt has dropped the other elements of this batch.
                    is_wanted = answer(result, self.held() if counts_held else None)

    async def expand(self, result: Any) -> Any:
        """Awaits a result, or emits it item by item; returns the answer."""
        host = self.host
        if self.is_awaitable(result):
            host.begin_call()
            result = await result
        if self.role == Role.PROCESSOR and self.is_generated(result):
            return None if await self.emit_all(result) else STOPPED
        return result

    async def pause(self, count: int = 0) -> bool:
        """Accepts and counts the element, or a batch, then waits until the sink resumes."""
        port = self.port
        is_wanted = port.answer_batch(Signal.PAUSE, count) if count else port.answer(Signal.PAUSE)
        await self.host.sleep(None)
        return self.port.resumed() and is_wanted

    async def finish(self, kind: TaskKind, value: Any) -> None:
        if kind not in (TaskKind.FLUSH, TaskKind.COMPLETE):
            return
        self.host.end_call()
        if self.host.is_stepped:
            await self.host.step()
        try:
            if kind is TaskKind.COMPLETE:
                result = await self.resolve(self.component.complete(value))
            else:
                result = await self._flush()
        except GeneratorExit:
            raise
        except BaseException as error:
            self.port.fail_last(self.host.failure_of(error))
        else:
            self.port.finish(result)

    async def _flush(self) -> Any:
        flush = getattr(self.component, "flush", None)
        result: Any = None if flush is None else await self.resolve(flush())
        if not self.is_generated(result):
            return result
        if hasattr(result, "__anext__"):
            return [item async for item in result if item is not None]
        return [item for item in result if item is not None]
