"""What all executors share: tasks, credit, failures, and emitting the items of a generator."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Coroutine
from types import AsyncGeneratorType, GeneratorType, NoneType
from typing import Any, Final

from torvyn._contract.element import Element, Output
from torvyn._contract.enums import TaskKind
from torvyn._contract.inspection import bound_method
from torvyn._contract.roles import Component, counts_held_elements
from torvyn._contract.signals import End, Verdict
from torvyn._native import Element as NativeElement
from torvyn._native import Port
from torvyn.reactor.stages.host import Host

Task = tuple[TaskKind, Any]

PLAIN: Final = frozenset(
    {NoneType, bool, str, bytes, list, tuple, Output, Element, NativeElement, Verdict}
)
"""Results that the port accepts as they are. Looked up by type, once per element."""

_GENERATORS: Final = frozenset({GeneratorType, AsyncGeneratorType})


def is_awaitable(value: Any) -> bool:
    """`inspect.isawaitable` without reading `__class__`, which may be the user's code."""
    if type(value) is GeneratorType:
        return inspect.isawaitable(value)
    return hasattr(type(value), "__await__")


class StageExecutor:
    """Calls one component outside the turns."""

    takes_end = False
    """Whether the component's items may end with an `End`, which is then kept in `end`."""
    end: End | None = None

    def __init__(self, component: Component, role: str, port: Port, host: Host) -> None:
        self.component: Any = component
        self.role = role
        self.port = port
        self.host = host
        counts = counts_held_elements(component, role)
        self.held_elements = bound_method(component, "held_elements") if counts else None

    async def run(self) -> None:
        """Runs until the flow stops or the component has ended."""
        try:
            await self._run()
        except GeneratorExit:
            raise
        except BaseException as error:
            # Raised outside a call that has an answer, such as `iter()` or the clean-up of a
            # generator. Without a report the flow would wait forever.
            failure = self.host.failure_of(error)
            if self.port.stopped:
                raise
            self.port.fail_last(failure)

    async def _run(self) -> None:
        raise NotImplementedError

    async def tasks(self) -> list[Task]:
        """Waits for tasks; an empty list means that the flow has stopped."""
        while not (tasks := self.port.take()) and not self.port.stopped:
            await self.host.wait_for_work(False)
        return tasks

    def held(self) -> int | None:
        """How many elements an aggregator holds; None if it does not say."""
        if self.held_elements is None:
            return None
        try:
            return int(self.held_elements())
        except Exception:
            # A component that cannot say holds everything that it took.
            return sys.maxsize

    async def credit(self) -> bool:
        """Waits until an element may be emitted. False: the flow has stopped."""
        while not self.port.credit():
            if self.port.stopped:
                return False
            await self.host.wait_for_work(True)
        return True

    def fail(self, error: BaseException, consumed: bool = True) -> bool:
        return self.port.fail(self.host.failure_of(error), consumed)

    def fail_if_open(self, error: GeneratorExit) -> None:
        """Reports a GeneratorExit that the component raised itself. Nothing closes the coroutine
        while the flow runs; once it is closed, it must not wait again."""
        if not self.port.stopped:
            self.port.fail(error)

    async def resolve(self, value: Any) -> Any:
        """The component's result, awaited if it is awaitable."""
        return await value if self.is_awaitable(value) else value

    def is_awaitable(self, value: Any) -> bool:
        kind = type(value)
        if not self.host.is_async or kind in PLAIN or kind in _GENERATORS:
            return False
        return is_awaitable(value)

    def is_generated(self, value: Any) -> bool:
        kind = type(value)
        if kind in _GENERATORS:
            return self.host.is_async or kind is GeneratorType
        return hasattr(kind, "__next__") or (self.host.is_async and hasattr(kind, "__anext__"))

    def emit_all(self, items: Any) -> Coroutine[Any, Any, bool]:
        """Emits the items one by one against credit and skips None. False: the flow has
        stopped."""
        return (
            self._emit_async(items) if hasattr(type(items), "__anext__") else self._emit_sync(items)
        )

    async def _emit_sync(self, items: Any) -> bool:
        port, is_stepped, is_exhausted = self.port, self.host.is_stepped, False
        try:
            for item in items:
                if item is None:
                    continue
                if type(item) is End and self.takes_end:
                    self.end = item
                    return True
                if is_stepped:
                    await self.host.step()
                if not (port.credit() or await self.credit()) or not port.emit(item):
                    return False
            is_exhausted = True
        finally:
            if not is_exhausted and hasattr(items, "close"):
                items.close()
        return True

    async def _emit_async(self, items: Any) -> bool:
        port, is_stepped, is_exhausted = self.port, self.host.is_stepped, False
        try:
            async for item in items:
                if item is None:
                    continue
                if type(item) is End and self.takes_end:
                    self.end = item
                    return True
                if is_stepped:
                    await self.host.step()
                if not (port.credit() or await self.credit()) or not port.emit(item):
                    return False
            is_exhausted = True
        finally:
            if not is_exhausted and hasattr(items, "aclose"):
                await items.aclose()
        return True
