"""The place where a flow's start and end are driven: a thread that blocks, or an event loop.

Init of all components and teardown of all are written once, as coroutines; what they wait for is
asked of the place. Every wait has a limit: what takes longer raises `Overdue`.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager
from typing import Any, Protocol

from torvyn.concurrency.background_loop import background_loop, discard

Watched = Callable[[Any, str], AbstractContextManager[None]]
"""Watches a call on the thread that drives: the runner, and the phase it is in."""


class Overdue(Exception):
    """Something took longer than its limit."""

    def __init__(self, limit_s: float, thread_id: int | None = None) -> None:
        super().__init__(f"not done within {limit_s:g} s")
        self.limit_s = limit_s
        self.thread_id = thread_id
        """The thread that is stuck, where it is known."""


class Escaped(Exception):
    """Carries what a component raised and a coroutine must not: StopIteration, GeneratorExit."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(error)
        self.error = error


def carried(error: BaseException) -> BaseException:
    """What a component raised, as a coroutine may raise it."""
    return Escaped(error) if isinstance(error, (StopIteration, GeneratorExit)) else error


@contextlib.contextmanager
def escaping() -> Iterator[None]:
    """Around what a component raised on another thread or in another task."""
    try:
        yield
    except (StopIteration, GeneratorExit) as error:
        raise carried(error) from error


class Place(Protocol):
    watched: Watched

    async def on_loop(
        self,
        work: Coroutine[Any, Any, Any],
        limit_s: float | None,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> Any:
        """Runs a coroutine on the loop of the flow's async stages."""

    def give_up_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        """Somebody's code blocks the loop: nothing waits for it again."""

    async def settle(self, value: Any, limit_s: float | None) -> None:
        """Awaits what `init` or `teardown` of a component inside the turns gave back."""

    async def wait(self, future: Future[Any], limit_s: float | None) -> Any:
        """The result of something that happens on another thread."""


class Blocking:
    """A thread waits; async stages live on the background loop."""

    def __init__(self, watched: Watched) -> None:
        self.watched = watched
        self._blocked: set[asyncio.AbstractEventLoop] = set()

    async def on_loop(
        self,
        work: Coroutine[Any, Any, Any],
        limit_s: float | None,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> Any:
        loop = loop or background_loop()
        if loop in self._blocked:
            work.close()
            raise Overdue(0.0, getattr(loop, "_thread_id", None))
        future = asyncio.run_coroutine_threadsafe(work, loop)
        if asyncio._get_running_loop() is loop:
            # The flow ended on the loop's own thread, which cannot wait for itself.
            return None
        try:
            return await self.wait(future, limit_s)
        except Overdue as overdue:
            future.cancel()
            overdue.thread_id = getattr(loop, "_thread_id", None)
            raise

    def give_up_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        discard(loop)
        self._blocked.add(loop)

    async def settle(self, value: Any, limit_s: float | None) -> None:
        # Another awaitable than a coroutine may be there for a loop that drives, and only for it.
        if inspect.iscoroutine(value):
            await self.on_loop(value, limit_s)

    async def wait(self, future: Future[Any], limit_s: float | None) -> Any:
        try:
            with escaping():
                return future.result(limit_s)
        except TimeoutError:
            if future.done():
                raise
            raise Overdue(limit_s or 0.0) from None


class OnLoop:
    """A task on the loop that drives the flow, where its async stages live too."""

    def __init__(self, watched: Watched) -> None:
        self.watched = watched

    async def on_loop(
        self,
        work: Coroutine[Any, Any, Any],
        limit_s: float | None,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> Any:
        return await self._within(asyncio.ensure_future(work), limit_s)

    def give_up_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        """This code runs on it: it is not blocked."""

    async def settle(self, value: Any, limit_s: float | None) -> None:
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
            raise Overdue(limit_s or 0.0)
        with escaping():
            return task.result()

    async def wait(self, future: Future[Any], limit_s: float | None) -> Any:
        loop, done = asyncio.get_running_loop(), asyncio.Event()

        def ring(_: Future[Any]) -> None:
            with contextlib.suppress(RuntimeError):  # The loop may be closed by then.
                loop.call_soon_threadsafe(done.set)

        future.add_done_callback(ring)
        try:
            await asyncio.wait_for(done.wait(), limit_s)
        except TimeoutError:
            raise Overdue(limit_s or 0.0) from None
        with escaping():
            return future.result()
