"""Drives `init` and `teardown` of a flow's components on the event loop that drives the flow."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from functools import partial
from typing import Any

from torvyn._flow.lifecycle_driver import CallLimit, LimitExceeded, wrap_errors
from torvyn._flow.threads import run_on_spare_thread


class AsyncDriver:
    """A task on the loop that drives the flow; async stages run on the same loop."""

    def __init__(self, call_limit: CallLimit) -> None:
        self.call_limit = call_limit

    async def run_on_loop(
        self,
        work: Coroutine[Any, Any, Any],
        limit_s: float | None,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> Any:
        return await self._within(asyncio.ensure_future(work), limit_s)

    def discard_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        """This code runs on the loop, so it is not blocked."""

    async def await_result(self, value: Any, limit_s: float | None) -> None:
        if inspect.isawaitable(value):
            await self._within(asyncio.ensure_future(value), limit_s)

    async def _within(self, task: asyncio.Future[Any], limit_s: float | None) -> Any:
        try:
            _, pending = await asyncio.wait([task], timeout=limit_s)
        except BaseException:
            task.cancel()
            raise
        if pending:
            task.cancel()
            raise LimitExceeded(limit_s or 0.0)
        with wrap_errors():
            return task.result()

    async def wait(self, future: Future[Any], limit_s: float | None) -> Any:
        loop, done = asyncio.get_running_loop(), asyncio.Event()

        def notify(_: Future[Any]) -> None:
            with contextlib.suppress(RuntimeError):  # The loop may be closed by then.
                loop.call_soon_threadsafe(done.set)

        future.add_done_callback(notify)
        try:
            await asyncio.wait_for(done.wait(), limit_s)
        except TimeoutError:
            raise LimitExceeded(limit_s or 0.0) from None
        with wrap_errors():
            return future.result()

    async def call_apart(self, work: Callable[[], None], give_up: Callable[[], None]) -> None:
        if asyncio._get_running_loop() is None:
            # The loop has ended, and this coroutine is being closed.
            work()
            return
        done: Future[None] = Future()
        run_on_spare_thread(partial(_resolve, done, work))
        is_cancelled = False
        while not done.done():
            try:
                await self.wait(done, None)
            except asyncio.CancelledError:
                # The thread uses what the caller will close.
                is_cancelled = True
                give_up()
            except BaseException:
                if not done.done():
                    give_up()
                    raise
        if is_cancelled:
            raise asyncio.CancelledError
        done.result()


def _resolve(done: Future[None], work: Callable[[], None]) -> None:
    try:
        work()
        done.set_result(None)
    except BaseException as error:
        done.set_exception(error)
