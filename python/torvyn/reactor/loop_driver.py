"""Flows driven by an event loop: turns run on the loop's thread, waiting is awaiting.

The loop gets its turn after every turn of the flow, and is rung when a parked flow has something to
do.
"""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

from torvyn.concurrency.background_loop import background_loop
from torvyn.concurrency.require_asyncio import require_asyncio
from torvyn.contract import Element
from torvyn.reactor.loop_bridge import LoopBridge, bridge

if TYPE_CHECKING:
    from torvyn._native import NativeFlow
    from torvyn.reactor.execution import Execution


class Attendance:
    """A loop's side of one flow: wakes up when the flow is woken, sleeps until it is due."""

    def __init__(self, native: NativeFlow) -> None:
        self._woken = asyncio.Event()
        self._bridge: LoopBridge = bridge(asyncio.get_running_loop())
        self._token = self._bridge.register(self._woken.set)
        native.attend_loop(self._bridge.waker, self._token)

    async def wait(self, due_ns: int | None) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._woken.wait(), None if due_ns is None else due_ns / 1e9)
        self._woken.clear()

    def close(self) -> None:
        self._bridge.unregister(self._token)

    # A loop that goes down may drop its driver unfinished: what is registered would keep the loop.
    __del__ = close


async def outputs_on_loop(execution: Execution) -> AsyncGenerator[Element, None]:
    """Drives on the running loop and gives what leaves; raises what made the flow fail."""
    native = await execution.start_on_loop()
    attendance = Attendance(native)
    ready: deque[Element] = deque()
    try:
        while True:
            status, due_ns = native.turn_once()
            ready = deque(native.outputs())
            while ready:
                yield ready.popleft()
            if status == "over":
                break
            if status == "parked":
                await attendance.wait(due_ns)
            else:
                await asyncio.sleep(0)
    finally:
        attendance.close()
        native.give_back(len(ready))
        await execution.leave_loop()
    execution.raise_failure()


class LoopDriver(AsyncIterator[Element]):
    """`async for element in flow`. Dropped half-way it cancels the flow; teardown follows on the
    loop."""

    def __init__(self, execute: Callable[[], Execution]) -> None:
        self._execute = execute
        self._execution: Execution | None = None
        self._outputs: AsyncGenerator[Element, None] | None = None

    def __anext__(self) -> Awaitable[Element]:
        if self._outputs is None:
            require_asyncio("`async for` over a flow")
            self._execution = self._execute()
            self._outputs = outputs_on_loop(self._execution)
        return self._outputs.__anext__()

    async def aclose(self) -> None:
        if self._outputs is not None:
            await self._outputs.aclose()

    def __del__(self) -> None:
        execution = self._execution
        if execution is not None and not execution.is_final:
            execution.cancel()


def call_when_ready(native: NativeFlow, callback: Callable[[], None]) -> Callable[[], None]:
    """Rings `callback` when the flow is woken: on the running loop, else on the background loop.

    It is rung once at the start as well: the flow may have been woken before anybody listened.
    Gives what ends it, to be called from any thread.
    """
    bell = Bell(native, callback)
    try:
        bell.hang(asyncio.get_running_loop())
    except RuntimeError:
        loop = background_loop()
        loop.call_soon_threadsafe(bell.hang, loop)
    return bell.take_down


class Bell:
    """One callback on a loop's line. The line knows it weakly: the callback often belongs to the
    one that owns the flow, and a loop must not keep either."""

    def __init__(self, native: NativeFlow, callback: Callable[[], None]) -> None:
        self._native: NativeFlow | None = native
        self._callback: Callable[[], None] | None = callback
        self._line: LoopBridge | None = None
        self._token = 0

    def hang(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._native is not None:
            self._line = bridge(loop)
            self._token = self._line.register(partial(_ring, weakref.ref(self)))
            self._native.attend_loop(self._line.waker, self._token)
            loop.call_soon(self.ring)

    def take_down(self) -> None:
        self._native = self._callback = None
        loop = self._line.loop if self._line is not None else None
        if self._line is not None and loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._line.unregister, self._token)

    def ring(self) -> None:
        if self._callback is not None:
            self._callback()


def _ring(reference: weakref.ref[Bell]) -> None:
    bell = reference()
    if bell is not None:
        bell.ring()
