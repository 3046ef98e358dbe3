"""Stages that are called once per element, then to flush or to complete."""

from __future__ import annotations

import inspect
from typing import Any, Final

from torvyn.contract import Signal
from torvyn.contract.roles import METHODS
from torvyn.reactor.stages.procedure import PLAIN, Procedure

_UNWANTED: Final = object()
"""In place of an answer: the flow stopped while the answer was being emitted."""


class ElementProcedure(Procedure):
    async def _work(self) -> None:
        method = getattr(self.component, METHODS[self.role])
        host, answer = self.host, self.port.answer
        is_coroutine = host.awaits and inspect.iscoroutinefunction(method)
        begin_call, steps = host.begin_call, host.steps
        while tasks := await self.tasks():
            wanted = True
            for kind, value in tasks:
                if kind != "element":
                    await self._finish(kind, value)
                    continue
                if not wanted:
                    continue
                if steps:
                    await host.step()
                try:
                    result = method(value)
                    if is_coroutine:
                        begin_call()
                        result = await result
                    if type(result) not in PLAIN:
                        result = await self._expand(result)
                        if result is _UNWANTED:
                            return
                        if result is Signal.PAUSE and self.role == "sink":
                            wanted = await self._pause()
                            continue
                except GeneratorExit as error:
                    self.fail_if_open(error)
                    raise
                except BaseException as error:
                    wanted = self.fail(error)
                else:
                    # False: an interrupt has dropped the others that were taken with this one.
                    wanted = answer(result)

    async def _expand(self, result: Any) -> Any:
        """The answer behind a result that has to be awaited or emitted in pieces."""
        host = self.host
        if self.is_awaitable(result):
            host.begin_call()
            result = await result
        if self.role == "processor" and self.is_generated(result):
            return None if await self.emit_all(result) else _UNWANTED
        return result

    async def _pause(self) -> bool:
        """The element is accepted, and counted as such, before the wait."""
        wanted = self.port.answer(Signal.PAUSE)
        await self.host.rest(None)
        return self.port.resumed() and wanted

    async def _finish(self, kind: str, value: Any) -> None:
        if kind not in ("flush", "complete"):
            return
        self.host.end_call()
        if self.host.steps:
            await self.host.step()
        try:
            if kind == "complete":
                result = await self.settle(self.component.complete(value))
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
        made: Any = None if flush is None else await self.settle(flush())
        if not self.is_generated(made):
            return made
        if hasattr(made, "__anext__"):
            return [item async for item in made if item is not None]
        return [item for item in made if item is not None]
