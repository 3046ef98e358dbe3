"""Drives `init` and `teardown` of a flow's components: on a thread that blocks, or on a loop.

`Lifecycle` is written once, as coroutines that wait through a driver. Every wait has a time limit;
a longer one raises `LimitExceeded`.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    import asyncio

CallLimit = Callable[[Any, str], AbstractContextManager[None]]
"""Limits a call of a runner's component, in a phase, on the thread that drives."""


def no_limit(runner: Any, phase: str) -> AbstractContextManager[None]:
    return contextlib.nullcontext()


class LimitExceeded(Exception):
    """A wait took longer than its limit."""

    def __init__(self, limit_s: float, thread_id: int | None = None) -> None:
        super().__init__(f"not done within {limit_s:g} s")
        self.limit_s = limit_s
        self.thread_id = thread_id
        """The thread that is stuck, where it is known."""


class WrappedError(Exception):
    """Holds a StopIteration or GeneratorExit of a component: a coroutine must not raise those."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(error)
        self.error = error


def wrap_error(error: BaseException) -> BaseException:
    """A component's exception in a form that a coroutine may raise."""
    return WrappedError(error) if isinstance(error, (StopIteration, GeneratorExit)) else error


@contextlib.contextmanager
def wrap_errors() -> Iterator[None]:
    """Wraps what a component raised on another thread or in another task."""
    try:
        yield
    except (StopIteration, GeneratorExit) as error:
        raise wrap_error(error) from error


class LifecycleDriver(Protocol):
    call_limit: CallLimit

    async def run_on_loop(
        self,
        work: Coroutine[Any, Any, Any],
        limit_s: float | None,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> Any:
        """Runs a coroutine on the loop of the flow's async stages."""

    def discard_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        """A component blocks the loop: never wait for it again."""

    async def await_result(self, value: Any, limit_s: float | None) -> None:
        """Awaits what `init` or `teardown` of an inline component returned."""

    async def wait(self, future: Future[Any], limit_s: float | None) -> Any:
        """Waits for the result of another thread."""

    async def call_apart(self, work: Callable[[], None], give_up: Callable[[], None]) -> None:
        """Calls what may wait for something outside, without blocking a loop. `give_up` makes it
        return soon."""


class BlockingDriver:
    """A thread waits; async stages run on the background loop, or on the one that drives the
    flow."""

    def __init__(
        self, call_limit: CallLimit, loop: asyncio.AbstractEventLoop | None = None
    ) -> None:
        self.call_limit = call_limit
        self._loop = loop
        self._blocked: set[asyncio.AbstractEventLoop] = set()

    async def run_on_loop(
        self,
        work: Coroutine[Any, Any, Any],
        limit_s: float | None,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> Any:
        import asyncio

        from torvyn._io.background_loop import background_loop

        loop = loop or self._loop or background_loop()
        if loop in self._blocked:
            work.close()
            raise LimitExceeded(0.0, getattr(loop, "_thread_id", None))
        future = asyncio.run_coroutine_threadsafe(work, loop)
        if asyncio._get_running_loop() is loop:
            # The flow ended on the loop's own thread, which cannot wait for itself.
            return None
        try:
            return await self.wait(future, limit_s)
        except LimitExceeded as exceeded:
            future.cancel()
            exceeded.thread_id = getattr(loop, "_thread_id", None)
            raise

    def discard_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        from torvyn._io.background_loop import discard_background_loop

        discard_background_loop(loop)
        self._blocked.add(loop)

    async def await_result(self, value: Any, limit_s: float | None) -> None:
        # Other awaitables than coroutines may be meant only for a loop that drives the flow.
        if inspect.iscoroutine(value):
            await self.run_on_loop(value, limit_s)

    async def wait(self, future: Future[Any], limit_s: float | None) -> Any:
        try:
            with wrap_errors():
                return future.result(limit_s)
        except TimeoutError:
            if future.done():
                raise
            raise LimitExceeded(limit_s or 0.0) from None

    async def call_apart(self, work: Callable[[], None], give_up: Callable[[], None]) -> None:
        work()


def run_blocking(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """Runs a coroutine whose waits block, so that it never suspends."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        result: Result = done.value
        return result
    coroutine.close()
    raise RuntimeError("a coroutine suspended where nothing can resume it")


Result = TypeVar("Result")
