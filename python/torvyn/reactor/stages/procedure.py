"""What all procedures share: tasks, credit, failures, and emitting what a generator makes."""

from __future__ import annotations

import inspect
from collections.abc import Coroutine
from types import AsyncGeneratorType, GeneratorType, NoneType
from typing import Any, Final

from torvyn._native import Element as NativeElement
from torvyn._native import Port
from torvyn.contract import Component, Element, End, Output, Verdict
from torvyn.reactor.stages.host import Host

Task = tuple[str, Any]

PLAIN: Final = frozenset(
    {NoneType, bool, str, bytes, list, tuple, Output, Element, NativeElement, Verdict}
)
"""Answers that the port takes as they are. Looked up by type: this is done for every element."""

_GENERATORS: Final = frozenset({GeneratorType, AsyncGeneratorType})


def is_awaitable(value: Any) -> bool:
    """`inspect.isawaitable` without a look at `__class__`, which may be the user's."""
    if type(value) is GeneratorType:
        return inspect.isawaitable(value)
    return hasattr(type(value), "__await__")


class Procedure:
    """One component at work outside the turns."""

    takes_end = False
    """Whether what the component makes may close with an `End`, which is then kept in `end`."""
    end: End | None = None

    def __init__(self, component: Component, role: str, port: Port, host: Host) -> None:
        self.component: Any = component
        self.role = role
        self.port = port
        self.host = host

    async def work(self) -> None:
        """Until the flow wants no more, or the component has said its last word."""
        try:
            await self._work()
        except GeneratorExit:
            raise
        except BaseException as error:
            # Outside of a call that is answered: `iter()`, the clean-up of a generator. Unreported,
            # the flow would wait for ever.
            failure = self.host.failure_of(error)
            if self.port.stopped:
                raise
            self.port.fail_last(failure)

    async def _work(self) -> None:
        raise NotImplementedError

    async def tasks(self) -> list[Task]:
        """Waits for tasks; none when the flow wants no more."""
        while not (tasks := self.port.take()) and not self.port.stopped:
            await self.host.ready(False)
        return tasks

    async def credit(self) -> bool:
        """Waits until an element may be made. False: the flow wants no more."""
        while not self.port.credit():
            if self.port.stopped:
                return False
            await self.host.ready(True)
        return True

    def fail(self, error: BaseException, consumed: bool = True) -> bool:
        return self.port.fail(self.host.failure_of(error), consumed)

    def fail_if_open(self, error: GeneratorExit) -> None:
        """A coroutine that is closed must not wait again. While the flow runs, nobody closes it: a
        component has raised this itself."""
        if not self.port.stopped:
            self.port.fail(error)

    async def settle(self, value: Any) -> Any:
        """What a component gave back, awaited if it must be."""
        return await value if self.is_awaitable(value) else value

    def is_awaitable(self, value: Any) -> bool:
        kind = type(value)
        if not self.host.awaits or kind in PLAIN or kind in _GENERATORS:
            return False
        return is_awaitable(value)

    def is_generated(self, value: Any) -> bool:
        kind = type(value)
        if kind in _GENERATORS:
            return self.host.awaits or kind is GeneratorType
        return hasattr(kind, "__next__") or (self.host.awaits and hasattr(kind, "__anext__"))

    def emit_all(self, items: Any) -> Coroutine[Any, Any, bool]:
        """One by one, as there is room behind; None is "nothing to emit". False: the flow wants no
        more."""
        return (
            self._emit_async(items) if hasattr(type(items), "__anext__") else self._emit_sync(items)
        )

    async def _emit_sync(self, items: Any) -> bool:
        port, steps, is_exhausted = self.port, self.host.steps, False
        try:
            for item in items:
                if item is None:
                    continue
                if type(item) is End and self.takes_end:
                    self.end = item
                    return True
                if steps:
                    await self.host.step()
                if not (port.credit() or await self.credit()) or not port.emit(item):
                    return False
            is_exhausted = True
        finally:
            if not is_exhausted and hasattr(items, "close"):
                items.close()
        return True

    async def _emit_async(self, items: Any) -> bool:
        port, steps, is_exhausted = self.port, self.host.steps, False
        try:
            async for item in items:
                if item is None:
                    continue
                if type(item) is End and self.takes_end:
                    self.end = item
                    return True
                if steps:
                    await self.host.step()
                if not (port.credit() or await self.credit()) or not port.emit(item):
                    return False
            is_exhausted = True
        finally:
            if not is_exhausted and hasattr(items, "aclose"):
                await items.aclose()
        return True
