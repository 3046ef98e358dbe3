"""Drives flows on an event loop: turns run on the loop's thread, and a parked flow is awaited.

Other tasks of the loop run after every turn of the flow.

Wakes an event loop from any thread, for all flows and stages that run on it.

A loop has one file descriptor for this, however many callbacks are registered.
"""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from torvyn._contract.element import Element
from torvyn._contract.enums import TurnStatus
from torvyn._io.background_loop import background_loop
from torvyn._io.other_loops import require_asyncio
from torvyn._io.per_loop import PerLoop
from torvyn._native import Waker

if TYPE_CHECKING:
    from torvyn._flow.execution import Execution
    from torvyn._native import NativeFlow


class FlowWaiter:
    """Waits on the running loop until the flow is woken or due."""

    def __init__(self, native: NativeFlow) -> None:
        self._woken = asyncio.Event()
        self._waker: LoopWaker = waker_of(asyncio.get_running_loop())
        self._token = self._waker.register(self._woken.set)
        native.drive_from_loop(self._waker.waker, self._token)

    async def wait(self, due_ns: int | None) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._woken.wait(), None if due_ns is None else due_ns / 1e9)
        self._woken.clear()

    def close(self) -> None:
        self._waker.unregister(self._token)

    # A loop that shuts down may drop its driver; the registration would keep the loop alive.
    __del__ = close


async def drive_on_loop(execution: Execution) -> AsyncGenerator[Element, None]:
    """Runs the flow on the running loop and yields its outputs; raises its failure."""
    native = await execution.start_on_loop()
    waiter = FlowWaiter(native)
    ready: deque[Element] = deque()
    try:
        while True:
            status, due_ns = native.turn_once()
            ready = deque(native.outputs())
            while ready:
                yield ready.popleft()
            if status is TurnStatus.OVER:
                break
            if status is TurnStatus.PARKED:
                await waiter.wait(due_ns)
            else:
                await asyncio.sleep(0)
    finally:
        waiter.close()
        native.count_unread(len(ready))
        await execution.aclose()
    execution.raise_failure()


class AsyncFlowIterator(AsyncIterator[Element]):
    """`async for element in flow`. Dropped before the end, it cancels the flow; the loop then tears
    the components down."""

    def __init__(self, execute: Callable[[], Execution]) -> None:
        self._execute = execute
        self._execution: Execution | None = None
        self._outputs: AsyncGenerator[Element, None] | None = None

    def __anext__(self) -> Awaitable[Element]:
        if self._outputs is None:
            require_asyncio("`async for` over a flow")
            self._execution = self._execute()
            self._outputs = drive_on_loop(self._execution)
        return self._outputs.__anext__()

    async def aclose(self) -> None:
        if self._outputs is not None:
            await self._outputs.aclose()

    def __del__(self) -> None:
        execution = self._execution
        if execution is not None and not execution.counts.is_final:
            execution.cancel()


def call_when_ready(native: NativeFlow, callback: Callable[[], None]) -> Callable[[], None]:
    """Calls `callback` when the flow is woken: on the running loop, else on the background loop.

    Also calls it once at the start, because the flow may have been woken before. Returns a function
    that cancels it, from any thread.
    """
    ready = ReadyCallback(native, callback)
    try:
        ready.register(asyncio.get_running_loop())
    except RuntimeError:
        loop = background_loop()
        loop.call_soon_threadsafe(ready.register, loop)
    return ready.cancel


class ReadyCallback:
    """A callback that a loop's waker refers to weakly: it often belongs to the owner of the flow,
    and the loop must keep neither alive."""

    def __init__(self, native: NativeFlow, callback: Callable[[], None]) -> None:
        self._native: NativeFlow | None = native
        self._callback: Callable[[], None] | None = callback
        self._waker: LoopWaker | None = None
        self._token = 0

    def register(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._native is not None:
            self._waker = waker_of(loop)
            self._token = self._waker.register(partial(_call, weakref.ref(self)))
            self._native.drive_from_loop(self._waker.waker, self._token)
            loop.call_soon(self.call)

    def cancel(self) -> None:
        self._native = self._callback = None
        loop = self._waker.loop if self._waker is not None else None
        if self._waker is not None and loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._waker.unregister, self._token)

    def call(self) -> None:
        if self._callback is not None:
            self._callback()


def _call(reference: weakref.ref[ReadyCallback]) -> None:
    ready = reference()
    if ready is not None:
        ready.call()


class LoopWaker:
    """Runs registered callbacks on its loop when their tokens are notified from any thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        # A strong reference would keep every loop and its descriptors in the table below.
        self._loop = weakref.ref(loop)
        self.waker = Waker()
        self._callbacks: dict[int, Callable[[], None]] = {}
        self._last_token = 0

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        return self._loop()

    def register(self, callback: Callable[[], None]) -> int:
        """The token that calls `callback` on the loop. Call it on the loop's thread."""
        loop = self._loop()
        if loop is not None and not self._callbacks:
            loop.add_reader(self.waker.fileno(), self._dispatch)
        self._last_token += 1
        self._callbacks[self._last_token] = callback
        return self._last_token

    def unregister(self, token: int) -> None:
        self._callbacks.pop(token, None)
        loop = self._loop()
        if loop is not None and not self._callbacks and not loop.is_closed():
            loop.remove_reader(self.waker.fileno())

    def _dispatch(self) -> None:
        for token in dict.fromkeys(self.waker.take()):
            callback = self._callbacks.get(token)
            if callback is not None:
                self._call(callback)

    def _call(self, callback: Callable[[], None]) -> None:
        try:
            callback()
        except Exception as error:
            # The other callbacks of this wake-up still have to run.
            loop = self._loop()
            if loop is not None:
                context = {"message": "a wake-up callback failed", "exception": error}
                loop.call_exception_handler(context)


_wakers: Final[PerLoop[LoopWaker]] = PerLoop(LoopWaker)
waker_of: Final = _wakers.of
"""The loop's waker; the first call makes it. Call it on the loop's thread."""
