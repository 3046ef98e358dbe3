"""Async components: one long-lived task per node, batches in, results out."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from torvyn.contract import Component
from torvyn.link.plan import NodePlan
from torvyn.reactor.loop_bridge import LoopBridge, bridge
from torvyn.reactor.runners.call_timer import CallClock
from torvyn.reactor.runners.lifecycle_driver import Overdue, Place, carried
from torvyn.reactor.runners.offloaded_node import Offloaded, awaited_failure
from torvyn.reactor.stages.procedure import is_awaitable

logger = logging.getLogger("torvyn.reactor")

_LOOP_GRACE_S = 0.25
"""A loop that has not answered so long after a limit is blocked by somebody's code."""


class LoopRunner(Offloaded):
    """All methods but those of `Runner` and `ring` belong to the loop's thread."""

    awaits = True

    def __init__(self, node: NodePlan, component: Component, config: str) -> None:
        super().__init__(node, component, config)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._bridge: LoopBridge | None = None
        self._token = 0
        self._handed = asyncio.Event()
        self._rung = asyncio.Event()
        self._is_rung = False
        self._is_resting = False
        self._is_initialised = False
        self._task: asyncio.Task[None] | None = None
        self._is_cancelled = False
        self._clock = CallClock(node.call_timeout_s)
        # Bound once: they are called for every element.
        self.begin_call = self._clock.begin  # type: ignore[method-assign]
        self.end_call = self._clock.end  # type: ignore[method-assign]

    @property
    def is_idle(self) -> bool:
        is_resting = self._is_resting and not self._is_rung and not self.port.has_results
        return self.port.idle or is_resting

    def ring(self) -> None:
        self._is_rung = True
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._rung.set)

    async def init(self, place: Place) -> None:
        await raised_by(place.on_loop(attempt(self._init), self.node.init_timeout_s))

    async def _init(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._bridge = bridge(self._loop)
        self._token = self._bridge.register(self._on_ring)
        self.port.notify(self._bridge.waker, self._token)
        await settle(self.component.init(self.config))
        self._is_initialised = True

    def work(self) -> None:
        assert self._loop is not None
        if asyncio._get_running_loop() is self._loop:
            self._begin()
        else:
            self._loop.call_soon_threadsafe(self._begin)

    def _begin(self) -> None:
        assert self._loop is not None
        self._task = self._loop.create_task(self.procedure.work(), name=f"torvyn-{self.node.role}")
        self._task.add_done_callback(self._on_done)
        self._clock.attach(self._task)

    def _on_done(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None and not self.port.stopped:
            self.port.fail_last(error)

    async def stop(self, place: Place, limit_s: float) -> None:
        if self._loop is None:
            return
        try:
            stopping = attempt(partial(self._stop, limit_s))
            limit_with_grace_s = limit_s * 1.25 + _LOOP_GRACE_S
            await raised_by(place.on_loop(stopping, limit_with_grace_s, self._loop))
        except Overdue as overdue:
            if overdue.limit_s > limit_s:
                # `_stop` keeps its limit itself: the loop does not run.
                place.give_up_loop(self._loop)
            raise

    async def _stop(self, limit_s: float) -> None:
        """Ends the task and tears the component down within the limit. A task that used it up
        leaves a quarter more for the teardown."""
        give_up_s = time.monotonic() + limit_s
        task, pending = self._task, False
        self._clock.stop()
        if task is not None:
            self._cancel()
            pending = bool((await asyncio.wait([task], timeout=limit_s))[1])
        try:
            if self._is_initialised:
                left_s = max(give_up_s - time.monotonic(), limit_s / 4)
                await asyncio.wait_for(settle(self.component.teardown()), left_s)
        except TimeoutError:
            pending = True
        finally:
            self._unregister()
        if pending:
            raise Overdue(limit_s)

    def abandon(self) -> None:
        """Nothing of this stays with the loop."""
        loop = self._loop
        if loop is None or loop.is_closed() or asyncio._get_running_loop() is loop:
            self._unregister()
        else:
            loop.call_soon_threadsafe(self._unregister)

    def _unregister(self) -> None:
        if self._bridge is not None:
            self._bridge.unregister(self._token)

    def _on_ring(self) -> None:
        if self.port.stopped:
            self._cancel()
        self._handed.set()

    def _cancel(self) -> None:
        """Once: a second cancellation would cut the clean-up that the first has begun."""
        if self._task is not None and not self._is_cancelled:
            self._is_cancelled = True
            self._task.cancel()

    # The host of the procedure

    async def ready(self, for_credit: bool) -> None:
        self._clock.end()
        # The port was asked just now, and rings arrive on this thread only: none is missed.
        self._handed.clear()
        await self._handed.wait()

    async def rest(self, seconds: float | None) -> None:
        self._clock.end()
        self._is_resting = True
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._rung.wait(), seconds)
        self._is_resting = self._is_rung = False
        self._rung.clear()

    def failure_of(self, error: BaseException) -> BaseException:
        # A cut that the component has caught itself is no reason to end: asked first, it is undone.
        has_cut = self._clock.has_cut()
        is_ending = self._task is not None and self._task.cancelling() > 0
        return awaited_failure(error, has_cut, is_ending, self._clock.limit_s)


async def settle(value: Any) -> Any:
    """The value, awaited if it must be."""
    return await value if is_awaitable(value) else value


async def attempt(call: Callable[[], Coroutine[Any, Any, None]]) -> BaseException | None:
    """What a call raised, as a value: `SystemExit` out of a task would end the whole loop."""
    try:
        await call()
    except (asyncio.CancelledError, GeneratorExit):
        raise
    except BaseException as error:
        return error
    return None


async def raised_by(attempted: Coroutine[Any, Any, BaseException | None]) -> None:
    error = await attempted
    if error is not None:
        raise carried(error)
