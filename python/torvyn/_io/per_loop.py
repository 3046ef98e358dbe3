"""What each event loop has its own of: values, and resources that are closed with it.

Loops come and go on any thread, and nothing of one works on another.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import weakref
from collections.abc import AsyncGenerator, Callable
from typing import Final, Generic, TypeVar

from torvyn._io.background_loop import wait_for
from torvyn._io.event_loop import keep_task

Loop = asyncio.AbstractEventLoop
T = TypeVar("T")


class PerLoop(Generic[T]):
    """The value of each loop, made when it is first asked for there. From any thread.

    A value goes with its loop. One that refers to its loop, and so keeps it in memory, goes when
    another loop gets its value after that loop was closed.
    """

    def __init__(self, make: Callable[[Loop], T]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._values: weakref.WeakKeyDictionary[Loop, T] = weakref.WeakKeyDictionary()
        self._latest: tuple[weakref.ref[Loop], T] | None = None
        """What most calls return, without the cost of a weak dictionary."""

    def here(self) -> T:
        """The value of the running loop."""
        return self.of(asyncio.get_running_loop())

    def of(self, loop: Loop) -> T:
        latest = self._latest
        if latest is not None and latest[0]() is loop:
            return latest[1]
        with self._lock:
            value = self._values.get(loop)
            if value is None:
                closed = [each for each in self._values if each.is_closed()]
                # Kept until the lock is free: what ends with a value may call this.
                dropped = [self._values.pop(each) for each in closed]  # noqa: F841
                value = self._values[loop] = self._make(loop)
            self._latest = (weakref.ref(loop), value)
            return value

    def pop(self, loop: Loop) -> T | None:
        """Forgets the value of a loop, and returns it."""
        with self._lock:
            self._latest = None
            return self._values.pop(loop, None)

    def pop_all(self) -> list[tuple[Loop, T]]:
        """Forgets all values, and returns them with their loops."""
        with self._lock:
            self._latest = None
            values = list(self._values.items())
            self._values.clear()
            return values


class ResourcePerLoop(Generic[T]):
    """Something that is opened on each loop, when it is first needed there.

    It is closed with its loop (by `asyncio.run`), with its owner, or with the program.
    """

    def __init__(self, open: Callable[[], AsyncGenerator[T, None]]) -> None:
        """`open` yields it once, and closes it when the generator is closed. A loop that ends
        closes its generators."""
        self._scopes: PerLoop[_Scope[T]] = PerLoop(lambda _: _Scope(open))
        weakref.finalize(self, _close_dropped, self._scopes)

    async def get(self) -> T:
        scope = self._scopes.here()
        if scope.opened is not None and self._is_usable(scope.opened):
            return scope.opened
        async with scope.lock:
            # Somebody else may have opened it meanwhile.
            if scope.opened is not None and self._is_usable(scope.opened):
                return scope.opened
            await scope.aclose()
            return await scope.open()

    def _is_usable(self, opened: T) -> bool:
        return True

    def close(self) -> None:
        """Closes all of them, each on its loop. From any thread."""
        for loop, scope in self._scopes.pop_all():
            if loop is asyncio._get_running_loop():
                keep_task(loop.create_task(scope.aclose()))
            elif loop.is_running():
                with contextlib.suppress(TimeoutError):
                    wait_for(scope.aclose(), loop, _CLOSE_S)

    async def aclose(self) -> None:
        """Like `close`, and waits for that of the running loop."""
        scope = self._scopes.pop(asyncio.get_running_loop())
        if scope is not None:
            await scope.aclose()
        self.close()


_CLOSE_S: Final = 2.0


class _Scope(Generic[T]):
    """The resource of one loop, and the generator that closes it."""

    def __init__(self, open: Callable[[], AsyncGenerator[T, None]]) -> None:
        self.lock = asyncio.Lock()
        self.opened: T | None = None
        self._open = open
        self._generator: AsyncGenerator[T, None] | None = None

    async def open(self) -> T:
        generator = self._open()
        opened = await anext(generator)
        # Not before: a generator that runs cannot be closed.
        self._generator, self.opened = generator, opened
        return opened

    async def aclose(self) -> None:
        self.opened = None
        generator, self._generator = self._generator, None
        if generator is not None:
            await generator.aclose()


def _close_dropped(scopes: PerLoop[_Scope[T]]) -> None:
    """Closes what a collected owner has left. Waits only at the end of the program."""
    for loop, scope in scopes.pop_all():
        if loop.is_running():
            closed = asyncio.run_coroutine_threadsafe(scope.aclose(), loop)
            if not threading.main_thread().is_alive():
                closed.result(_CLOSE_S)
