"""Runs async components: one long-lived task per node on an event loop.

The time limit of an async component's calls: one timer for all of them.

The timer fires every quarter of the limit, so a call costs two assignments and no timer of its own.
A call is therefore cancelled between its limit and a quarter more.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final

from torvyn._contract.config import init_argument
from torvyn._contract.roles import Component
from torvyn._flow.cpu_time import TimedCoroutine
from torvyn._flow.event_loop import LoopWaker, waker_of
from torvyn._flow.executors import is_awaitable
from torvyn._flow.failures import log_acknowledge_failure
from torvyn._flow.lifecycle_driver import LifecycleDriver, LimitExceeded, wrap_error
from torvyn._flow.offloaded_runner import OffloadedRunner, awaited_call_error
from torvyn._io.background_loop import end_loop
from torvyn._link.plan import NodePlan

_LOOP_GRACE_S = 0.25
"""A loop that has not answered this long after a limit is blocked by a component."""


class AsyncRunner(OffloadedRunner):
    """Other threads than the loop's may call only the methods of `Runner`, and `wake`."""

    is_async = True
    owned_loop: asyncio.AbstractEventLoop | None = None
    """A loop that ends with the component: no other one can block it, or be blocked by it."""

    def __init__(self, node: NodePlan, component: Component, config: str) -> None:
        super().__init__(node, component, config)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waker: LoopWaker | None = None
        self._token = 0
        self._has_work = asyncio.Event()
        self._woken = asyncio.Event()
        self._is_woken = False
        self._is_sleeping = False
        self._is_initialized = False
        self._task: asyncio.Task[None] | None = None
        self._timed: TimedCoroutine[None] | None = None
        self._is_cancelled = False
        self._acknowledgements: set[asyncio.Task[BaseException | None]] = set()
        self._timer = CallTimer(node.call_timeout_s)
        # Bound once, because they are called for every element.
        self.begin_call = self._timer.begin  # type: ignore[method-assign]
        self.end_call = self._timer.end  # type: ignore[method-assign]

    @property
    def cpu_ns(self) -> int | None:
        return None if self._timed is None else self._timed.cpu_ns

    @property
    def is_idle(self) -> bool:
        is_sleeping = self._is_sleeping and not self._is_woken and not self.port.has_results
        return self.port.idle or is_sleeping

    def wake(self) -> None:
        self._is_woken = True
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._woken.set)

    async def init(self, driver: LifecycleDriver) -> None:
        call, limit_s = attempt(self._init), self.node.init_timeout_s
        await raise_result(driver.run_on_loop(call, limit_s, self.owned_loop))

    async def _init(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waker = waker_of(self._loop)
        self._token = self._waker.register(self._on_work)
        self.port.notify(self._waker.waker, self._token)
        await resolve(self.component.init(init_argument(self.component, self.config)))
        self._is_initialized = True

    def start(self) -> None:
        assert self._loop is not None
        if asyncio._get_running_loop() is self._loop:
            self._start_task()
        else:
            self._loop.call_soon_threadsafe(self._start_task)

    def _start_task(self) -> None:
        assert self._loop is not None
        self._timed = TimedCoroutine(self.executor.run())
        self._task = self._loop.create_task(self._timed, name=f"torvyn-{self.node.role}")
        self._task.add_done_callback(self._on_done)
        self._timer.attach(self._task)

    def _on_done(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None and not self.port.stopped:
            self.port.fail_last(error)

    async def acknowledge(self, driver: LifecycleDriver, count: int) -> None:
        if self._loop is not None:
            call = attempt(partial(self._acknowledge, count))
            await raise_result(driver.run_on_loop(call, self.node.call_timeout_s, self._loop))

    async def _acknowledge(self, count: int) -> None:
        await resolve(self.component.acknowledge(count))  # type: ignore[attr-defined]

    async def stop(self, driver: LifecycleDriver, limit_s: float) -> None:
        try:
            await self._stop_on_loop(driver, limit_s)
        finally:
            if self.owned_loop is not None:
                end_loop(self.owned_loop)

    async def _stop_on_loop(self, driver: LifecycleDriver, limit_s: float) -> None:
        if self._loop is None:
            return
        try:
            stop = attempt(partial(self._stop, limit_s))
            limit_with_grace_s = limit_s * 1.25 + _LOOP_GRACE_S
            await raise_result(driver.run_on_loop(stop, limit_with_grace_s, self._loop))
        except LimitExceeded as exceeded:
            if exceeded.limit_s > limit_s:
                # `_stop` enforces its own limit, so the loop itself does not run.
                driver.discard_loop(self._loop)
            raise

    async def _stop(self, limit_s: float) -> None:
        """Ends the task and tears the component down within the limit. After a task that used up
        the limit, teardown still gets a quarter of it."""
        give_up_s = time.monotonic() + limit_s
        task, is_pending = self._task, False
        self._timer.stop()
        if task is not None:
            self._cancel()
            is_pending = bool((await asyncio.wait([task], timeout=limit_s))[1])
        try:
            if self._is_initialized:
                self._is_initialized = False
                left_s = max(give_up_s - time.monotonic(), limit_s / 4)
                await asyncio.wait_for(resolve(self.component.teardown()), left_s)
        except TimeoutError:
            is_pending = True
        finally:
            self._unregister()
        if is_pending:
            raise LimitExceeded(limit_s)

    def abandon(self) -> None:
        loop = self._loop
        if loop is None or loop.is_closed() or asyncio._get_running_loop() is loop:
            self._unregister()
        else:
            loop.call_soon_threadsafe(self._unregister)

    def _unregister(self) -> None:
        if self._waker is not None:
            self._waker.unregister(self._token)

    def _on_work(self) -> None:
        if self.port.stopped:
            self._cancel()
        elif (count := self.port.take_settled()) and self._loop is not None:
            # A pull may be waiting for the next element: it must not delay this.
            task = self._loop.create_task(attempt(partial(self._acknowledge, count)))
            self._acknowledgements.add(task)
            task.add_done_callback(self._on_acknowledged)
        self._has_work.set()

    def _on_acknowledged(self, task: asyncio.Task[BaseException | None]) -> None:
        self._acknowledgements.discard(task)
        error = None if task.cancelled() else task.result()
        if error is not None:
            log_acknowledge_failure(error)

    def _cancel(self) -> None:
        """Cancels once: a second cancellation would interrupt the clean-up of the first."""
        if self._task is not None and not self._is_cancelled:
            self._is_cancelled = True
            self._task.cancel()

    # The host of the executor

    async def wait_for_work(self, needs_credit: bool) -> None:
        self._timer.end()
        # The executor has just checked the port, and `_on_work` runs on this thread only, so no
        # wake-up is lost here.
        self._has_work.clear()
        await self._has_work.wait()

    async def sleep(self, seconds: float | None) -> None:
        self._timer.end()
        self._is_sleeping = True
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._woken.wait(), seconds)
        self._is_sleeping = self._is_woken = False
        self._woken.clear()

    def failure_of(self, error: BaseException) -> BaseException:
        # First, because it undoes a cancellation that the component has caught itself.
        has_timed_out = self._timer.take_timeout()
        is_ending = self._task is not None and self._task.cancelling() > 0
        return awaited_call_error(error, has_timed_out, is_ending, self._timer.limit_s)


async def resolve(value: Any) -> Any:
    """The value, awaited if it is awaitable."""
    return await value if is_awaitable(value) else value


async def attempt(call: Callable[[], Coroutine[Any, Any, None]]) -> BaseException | None:
    """The call's exception as a value: a `SystemExit` that leaves a task would end the loop."""
    try:
        await call()
    except (asyncio.CancelledError, GeneratorExit):
        raise
    except BaseException as error:
        return error
    return None


async def raise_result(attempted: Coroutine[Any, Any, BaseException | None]) -> None:
    """Raises the exception that `attempt` returned."""
    error = await attempted
    if error is not None:
        raise wrap_error(error)


_CHECKS: Final = 4
"""Checks per limit."""


class CallTimer:
    """Cancels its task when one call takes longer than `limit_s`."""

    def __init__(self, limit_s: float) -> None:
        self.limit_s = limit_s
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_in_call = False
        self._calls = 0
        self._last_check = (0, 0)
        """The call that was running at the last check, and how many checks have seen it."""
        self._has_timed_out = False

    def attach(self, task: asyncio.Task[None]) -> None:
        self._task, self._loop = task, task.get_loop()

    def begin(self) -> None:
        self._is_in_call = True
        self._calls += 1
        if self._timer is None:
            self._schedule()

    def end(self) -> None:
        self._is_in_call = False

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def take_timeout(self) -> bool:
        """Whether this timer caused the cancellation that was caught; if so, undoes it, and the
        task goes on."""
        has_timed_out, self._has_timed_out = self._has_timed_out, False
        if has_timed_out and self._task is not None:
            self._task.uncancel()
        return has_timed_out

    def _schedule(self) -> None:
        assert self._loop is not None
        self._timer = self._loop.call_later(self.limit_s / _CHECKS, self._check)

    def _check(self) -> None:
        self._timer = None
        if not self._is_in_call:
            return
        call, checks = self._last_check
        self._last_check = (self._calls, checks + 1 if call == self._calls else 1)
        # The first check may come right after the call began: one more covers the whole limit.
        if self._last_check[1] <= _CHECKS:
            self._schedule()
            return
        assert self._task is not None
        self._has_timed_out = True
        self._task.cancel()
