"""Runners of async stages: one long-lived task a node, batches in, results out."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from types import GeneratorType
from typing import Any

from torvyn._native import Port
from torvyn.contract import Component, End, Signal
from torvyn.contract.probe import async_iterator_of, attach, has
from torvyn.contract.roles import METHODS
from torvyn.errors import DeadlineExceeded, Internal
from torvyn.reactor.call_clock import CallClock
from torvyn.reactor.failure import is_from_outside
from torvyn.reactor.loops import LoopBridge, bridge
from torvyn.reactor.offload import OffloadedNode

logger = logging.getLogger("torvyn.reactor")

FAILURES = BaseException
"""What a component may raise: whatever of it reached the loop would end the loop, or the task, and
nobody would hear."""


def _told(error: BaseException) -> BaseException:
    """A cancellation that nobody asked the runner for is a failure of the component's own."""
    if not isinstance(error, asyncio.CancelledError):
        return error
    failure = Internal("something it awaited was cancelled")
    failure.__cause__ = error
    return failure


async def settle(value: Any) -> Any:
    """The value, awaited if it must be."""
    return await value if _is_awaitable(value) else value


def _is_awaitable(value: Any) -> bool:
    """`inspect.isawaitable`, without a look at `__class__`, which may be the user's."""
    kind = type(value)
    if kind is GeneratorType:
        return inspect.isawaitable(value)
    return hasattr(kind, "__await__")


async def attempt(call: Callable[..., Any], *arguments: Any) -> BaseException | None:
    """What a call raised, as a value: `SystemExit` out of a task would end the whole loop."""
    try:
        await settle(call(*arguments))
    except (asyncio.CancelledError, GeneratorExit):
        raise
    except BaseException as error:
        return error
    return None


class AsyncRunner:
    """Runs a component on a loop. All methods but `ring` belong to the loop's thread."""

    def __init__(
        self, component: Component, role: str, ports: tuple[str, ...], config: str, limit_s: float
    ) -> None:
        self.component = component
        self.role = role
        self.port = Port(role, list(ports))
        self.config = config
        self.teardown_error: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._bridge: LoopBridge | None = None
        self._token = 0
        self._ready = asyncio.Event()
        self._rung = asyncio.Event()
        self._is_rung = False
        self._resting = False
        self._is_initialised = False
        self._task: asyncio.Task[None] | None = None
        self._is_cancelled = False
        self._clock = CallClock(limit_s)
        self.node = OffloadedNode(self.ring)
        attach(component, self.node)

    def ring(self) -> None:
        """`resume()` or `wake()` of the component, from any thread."""
        self._is_rung = True
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._rung.set)

    @property
    def is_idle(self) -> bool:
        """Whether nothing moves here until the reactor or the component says so. From any
        thread."""
        return self.port.idle or (self._resting and not self._is_rung)

    async def init(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._bridge = bridge(self._loop)
        self._token = self._bridge.register(self._on_ring)
        self.port.notify(self._bridge.waker, self._token)
        await settle(self.component.init(self.config))
        self._is_initialised = True

    def go(self) -> None:
        assert self._loop is not None
        self._task = self._loop.create_task(self._work(), name=f"torvyn-{self.role}")
        self._clock.attach(self._task)

    async def stop(self, timeout_s: float) -> bool:
        """Ends the task and tears the component down. False: it would not end in time."""
        task, ended = self._task, True
        self._clock.stop()
        if task is not None:
            self._cancel()
            _, pending = await asyncio.wait([task], timeout=timeout_s)
            ended = not pending
        try:
            if self._is_initialised:
                error = await asyncio.wait_for(attempt(self.component.teardown), timeout_s)
                self.teardown_error = error
        except TimeoutError:
            ended = False
        except BaseException as error:
            if is_from_outside(error):
                raise
            self.teardown_error = error
        self.let_go()
        return ended

    def let_go(self) -> None:
        """Nothing of this stays with the loop."""
        if self._bridge is not None:
            self._bridge.unregister(self._token)

    def _on_ring(self) -> None:
        if self.port.stopped:
            self._cancel()
        self._ready.set()

    def _cancel(self) -> None:
        """Once: a second cancellation would cut the clean-up that the first has begun."""
        if self._task is not None and not self._is_cancelled:
            self._is_cancelled = True
            self._task.cancel()

    @property
    def _is_to_end(self) -> bool:
        """Somebody has cancelled the task itself: the flow, or the loop that goes down."""
        # A cut that the component has caught itself is no reason to end.
        self._clock.has_cut()
        return self._task is not None and self._task.cancelling() > 0

    async def _work(self) -> None:
        try:
            if self.role == "source":
                await self._work_as_source()
            elif hasattr(self.component, "stream_function"):
                await self._work_as_stream()
            else:
                await self._work_on_elements()
        except FAILURES as error:
            # Outside of a call that is answered: a notice, `aiter()`, a stream. Unsaid, the flow
            # would wait for ever.
            if not isinstance(error, GeneratorExit) and (self._is_to_end or self.port.stopped):
                raise
            # A coroutine that is closed must not wait again, so this ends the work in any case.
            self.port.fail_last(_told(error))

    async def _tasks(self) -> list[tuple[str, Any]]:
        while True:
            self._ready.clear()
            tasks = self.port.take()
            if tasks or self.port.stopped:
                return tasks
            await self._ready.wait()

    async def _work_on_elements(self) -> None:
        method = getattr(self.component, METHODS[self.role])
        # A coroutine that cannot pause the flow needs no look at what it gave back before it is
        # answered.
        is_plain = inspect.iscoroutinefunction(method) and self.role != "sink"
        clock, answer = self._clock, self.port.answer
        while tasks := await self._tasks():
            wanted = True
            for kind, value in tasks:
                if kind == "element":
                    if not wanted:
                        continue
                    if not is_plain:
                        wanted = await self._answer(method, value)
                        continue
                    clock.begin()
                    try:
                        wanted = answer(await method(value))
                    except FAILURES as error:
                        wanted = self._fail(error)
                    clock.end()
                elif kind in ("flush", "complete"):
                    await self._finish(kind, value)

    async def _answer(self, method: Callable[[Any], Any], element: Any) -> bool:
        """False: an interrupt has dropped the others that were taken with this one."""
        try:
            result = method(element)
            if inspect.isasyncgen(result):
                async for item in result:
                    await self._credit()
                    self.port.emit(item)
                result = None
            elif _is_awaitable(result):
                self._clock.begin()
                result = await result
            if self.role == "sink" and result is Signal.PAUSE:
                self._clock.end()
                await self._rest()
                result = None
        except FAILURES as error:
            return self._fail(error)
        finally:
            self._clock.end()
        return self.port.answer(result)

    def _fail(self, error: BaseException) -> bool:
        """The call failed, or was cut by our clock; a cancellation of the task is for the task."""
        if self._clock.has_cut() and isinstance(error, asyncio.CancelledError):
            error = DeadlineExceeded(f"no answer within {self._clock.limit_s:g} s")
        elif self._is_to_end:
            raise error
        wanted = self.port.fail(_told(error))
        if isinstance(error, GeneratorExit):
            raise error
        return wanted

    async def _finish(self, kind: str, value: Any) -> None:
        component: Any = self.component
        try:
            if kind == "complete":
                result = await settle(component.complete(value))
            else:
                result = await settle(getattr(component, "flush", lambda: None)())
        except FAILURES as error:
            if self._is_to_end:
                raise
            self.port.fail_last(_told(error))
        else:
            self.port.finish(result)

    async def _credit(self, meanwhile: Callable[[], Awaitable[None]] | None = None) -> None:
        while True:
            self._ready.clear()
            granted = self.port.credit() > 0
            if meanwhile is not None:
                await meanwhile()
            if self.port.credit() == 0:
                await self._ready.wait()
            elif granted:
                return

    async def _tell_pressure(self) -> None:
        component: Any = self.component
        for kind, signal in self.port.take():
            if kind == "pressure":
                try:
                    await settle(component.notify_backpressure(signal))
                except Exception:
                    # A notice has no answer: its failure is told, and the stream goes on.
                    logger.warning("a source failed in `notify_backpressure`", exc_info=True)

    async def _rest(self, seconds: float | None = None) -> None:
        """Until the component asks to go on, or for so long."""
        self._resting = True
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._rung.wait(), seconds)
        self._resting = self._is_rung = False
        self._rung.clear()

    async def _work_as_source(self) -> None:
        component: Any = self.component
        items = async_iterator_of(component) if has(component, "__aiter__") else None
        pull = component.pull if items is None else items.__anext__
        try:
            has_more = True
            while has_more and not self.port.stopped:
                await self._credit(self._tell_pressure)
                has_more = await self._pull(pull)
        finally:
            if items is not None and hasattr(items, "aclose"):
                await items.aclose()

    async def _pull(self, pull: Callable[[], Awaitable[Any]]) -> bool:
        """False: that was the end."""
        try:
            item = await settle(pull())
        except StopAsyncIteration:
            item = None
        except FAILURES as error:
            if self._is_to_end:
                raise
            self.port.fail(_told(error), False)
            return True
        wait_s = self.port.pulled(item)
        if wait_s is not None:
            await self._rest(None if wait_s < 0 else wait_s)
        return item is not None and not isinstance(item, End)

    async def _work_as_stream(self) -> None:
        stream = self.component.stream_function(self._stream())  # type: ignore[attr-defined]
        try:
            async for item in stream:
                await self._credit()
                self.port.emit(item)
        except FAILURES as error:
            if self._is_to_end:
                raise
            self.port.fail_last(_told(error))
        else:
            self.port.finish(None)
        finally:
            await stream.aclose()

    async def _stream(self) -> AsyncIterator[Any]:
        while tasks := await self._tasks():
            wanted = True
            for kind, value in tasks:
                if kind == "flush":
                    return
                if kind == "element" and wanted:
                    yield value
                    wanted = self.port.answer(None)
