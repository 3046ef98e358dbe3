"""Calls a component once for all elements that wait, then to flush or to complete.

If a call raises, its elements are given to the component one by one: then the error policy applies
to the element that is at fault.
"""

from __future__ import annotations

from typing import Any

from torvyn._contract.enums import Role, TaskKind
from torvyn._contract.roles import BATCH_METHODS, METHODS, Component, defines_method
from torvyn._contract.signals import Signal
from torvyn._native import Batch, Port
from torvyn.errors import ContractError, Fatal
from torvyn.reactor.stages.element_executor import STOPPED, ElementExecutor
from torvyn.reactor.stages.host import Host


class BatchExecutor(ElementExecutor):
    def __init__(self, component: Component, role: str, port: Port, host: Host) -> None:
        super().__init__(component, role, port, host)
        self._singles = 0
        """A batch has failed: so many elements are given to the component one by one."""
        port.take_batches()

    async def _run(self) -> None:
        while tasks := await self.tasks():
            elements = [value for kind, value in tasks if kind is TaskKind.ELEMENT]
            if elements and not await self._take(elements):
                return
            for kind, value in tasks:
                if kind is not TaskKind.ELEMENT:
                    await self.finish(kind, value)

    async def _take(self, elements: list[Any]) -> bool:
        """False: the flow has stopped while an answer was being emitted."""
        if len(elements) > 1 and not self._singles:
            is_settled, error = await self._call_batch(elements)
            if error is not None and _stops_the_flow(error):
                self.port.fail(error)
                return True
            if is_settled:
                return True
            self._singles = len(elements)
        for element in elements:
            is_wanted = await self._call_single(element)
            if is_wanted is None:
                return False
            if not is_wanted:
                break
        return True

    async def _call_batch(self, elements: list[Any]) -> tuple[bool, BaseException | None]:
        """Whether the elements are settled, or the exception of the call."""
        try:
            result = await self._call(BATCH_METHODS[self.role], Batch(elements))
        except GeneratorExit as error:
            self.fail_if_open(error)
            raise
        except BaseException as error:
            return False, self.host.failure_of(error)
        if result is Signal.PAUSE and self.role == Role.SINK:
            await self.pause(len(elements))
        else:
            self.port.answer_batch(result, len(elements), self.held())
        return True, None

    async def _call_single(self, element: Any) -> bool | None:
        """Whether the next element is wanted. None: the flow has stopped."""
        self._singles = max(0, self._singles - 1)
        if not defines_method(self.component, self.role, METHODS[self.role]):
            return await self._call_alone(element)
        try:
            result = await self.expand(await self._call(METHODS[self.role], element))
            if result is STOPPED:
                return None
            if result is Signal.PAUSE and self.role == Role.SINK:
                return await self.pause()
        except GeneratorExit as error:
            self.fail_if_open(error)
            raise
        except BaseException as error:
            return self.fail(error)
        return self.port.answer(result, self.held())

    async def _call_alone(self, element: Any) -> bool:
        """A batch of one, for a component that has only the batch method."""
        is_settled, error = await self._call_batch([element])
        if error is not None:
            return self.port.fail(error)
        return is_settled

    async def _call(self, name: str, argument: Any) -> Any:
        if self.host.is_stepped:
            await self.host.step()
        result = getattr(self.component, name)(argument)
        if not self.is_awaitable(result):
            return result
        self.host.begin_call()
        return await result


def _stops_the_flow(error: BaseException) -> bool:
    return isinstance(error, (Fatal, ContractError)) or not isinstance(error, Exception)
