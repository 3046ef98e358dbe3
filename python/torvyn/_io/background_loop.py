"""Work on a loop that the caller does not run: in the background, or apart from everything else.

Every loop of ours that a thread runs is started by `start_loop`. The background loop is one of
them, one per process, for work that no loop of the program runs. A thread waits for a coroutine of
another loop with `wait_for`, and reads an async stream of another loop with `SyncReader`.

While the process exits, daemon threads wait and raise no errors. When the main thread has returned,
models and connections are closed while daemon threads still run; the interpreter then stops them
where they wait. A call of such a thread would fail because its connection is closed, and print a
traceback after the program has ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Final, Generic, TypeVar


class _LoopThread(threading.Thread):
    """Runs a loop until `end`; then cancels the tasks that are left, and closes the loop."""

    def __init__(self) -> None:
        super().__init__(name="torvyn-loop", daemon=True)
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self.loop = self._runner.get_loop()
        self._is_ending = self._has_stopped = False

    def run(self) -> None:
        try:
            with self._runner:
                while not self._has_stopped:
                    # What a component raises must not end the loop for what else is on it.
                    with contextlib.suppress(SystemExit, KeyboardInterrupt):
                        self.loop.run_forever()
        finally:
            _threads.pop(self.loop, None)

    def end(self) -> None:
        with _lock:
            is_first, self._is_ending = not self._is_ending, True
        if is_first:
            self.loop.call_soon_threadsafe(self._stop)

    def _stop(self) -> None:
        self._has_stopped = True
        self.loop.stop()


_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None
_threads: Final[dict[asyncio.AbstractEventLoop, _LoopThread]] = {}


def start_loop() -> asyncio.AbstractEventLoop:
    """A loop on a daemon thread of its own, for what may block it. Somebody must end it."""
    thread = _LoopThread()
    _threads[thread.loop] = thread
    thread.start()
    return thread.loop


def end_loop(loop: asyncio.AbstractEventLoop, wait_s: float | None = 0) -> None:
    """Ends a loop that `start_loop` has started, once nothing blocks it, and cancels its tasks.
    With `wait_s`, waits for that, at most so long; None is without a limit."""
    if (thread := _threads.get(loop)) is not None:
        thread.end()
        if wait_s != 0:
            thread.join(wait_s)


def background_loop() -> asyncio.AbstractEventLoop:
    """The loop of the process. The first call starts it."""
    global _loop
    with _lock:
        if _loop is None:
            _loop = start_loop()
        return _loop


def discard_background_loop(loop: asyncio.AbstractEventLoop) -> None:
    """Replaces a loop that a component blocks: later calls of `background_loop` get a new one."""
    global _loop
    with _lock:
        if _loop is loop:
            _loop = None


def _forget_parent() -> None:
    """A forked process has none of the threads, and may have got the lock from one that held it."""
    global _lock, _loop
    _lock, _loop = threading.Lock(), None
    _threads.clear()


os.register_at_fork(after_in_child=_forget_parent)


def is_background_loop(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether it runs on a thread of its own, and not in the program."""
    return loop in _threads


def is_abandoned() -> bool:
    """Whether the process is exiting without waiting for this thread."""
    return threading.current_thread().daemon and not threading.main_thread().is_alive()


def wait_if_abandoned() -> None:
    """Call this before raising on a reader's thread. It never returns on an abandoned thread."""
    if is_abandoned():
        threading.Event().wait()


async def await_if_abandoned() -> None:
    """The same for coroutines on a loop of the program. On the background loop it returns, because
    the reader is on another thread, which may be the main one."""
    loop = asyncio.get_running_loop()
    if is_abandoned() and not is_background_loop(loop):
        await loop.create_future()


Result = TypeVar("Result")


def wait_for(
    coroutine: Coroutine[Any, Any, Result],
    loop: asyncio.AbstractEventLoop,
    limit_s: float | None = None,
) -> Result:
    """Runs the coroutine on the loop, of another thread, and returns its result. An exception here
    cancels it, such as an interrupt, or the `TimeoutError` after `limit_s`."""
    future = asyncio.run_coroutine_threadsafe(coroutine, loop)
    try:
        return future.result(limit_s)
    except BaseException:
        wait_if_abandoned()
        future.cancel()
        raise


def run_apart(work: Coroutine[Any, Any, Result]) -> Result:
    """The result of the coroutine, which runs on an event loop and a thread of its own: it writes
    files, and would delay whatever else ran there. An interrupt cancels it, and waits for its
    end."""
    loop = start_loop()
    try:
        return wait_for(work, loop)
    finally:
        end_loop(loop, wait_s=None)


Item = TypeVar("Item")
Pending = TypeVar("Pending")
BUFFER: Final = 256
AHEAD: Final = 64
"""How much the loop reads ahead, in the unit of the sizes, besides the item that goes over it."""
_LEAVE_TIMEOUT_S: Final = 2.0
"""How long a reader that leaves waits for the end of the stream, which may wait for a thread."""
_EMPTY: Final = object()


class SyncReader(Generic[Item]):
    """One stream, one reader: iterate over it, or call `poll` where the reader must not block.

    The loop reads ahead into a buffer and pauses when it is full: after `BUFFER` items, or, where
    items have a size, after as much as the reader has taken, one item at first and `AHEAD` in the
    end. The reader takes items without a lock and is woken once per batch, so a fast stream costs
    few wake-ups.

    The stream starts with the first read. `abort` is called, from any thread, when the reader is
    closed or dropped before the end; it must end the stream. `wake` is called on the loop's thread
    when there is something to read after `poll` found nothing.
    """

    def __init__(
        self,
        stream: AsyncIterator[Item],
        loop: asyncio.AbstractEventLoop,
        abort: Callable[[], Any],
        wake: Callable[[], Any] | None = None,
        size: Callable[[Item], int] | None = None,
    ) -> None:
        """With `size`, the loop stays close to the reader and goes on only for its next read."""
        self._stream = stream
        self._abort = abort
        self._is_started = False
        self._ready: SimpleQueue[None] = SimpleQueue()
        wake = wake or partial(self._ready.put, None)
        self._buffer: _Buffer[Item] = _Buffer(loop, wake, size)

    def __iter__(self) -> Iterator[Item]:
        items = self._buffer.items
        take = items.popleft
        with contextlib.suppress(StopIteration):
            while True:
                yield next(self)
                while items:
                    yield take()

    def __next__(self) -> Item:
        try:
            while (item := self.poll(_EMPTY)) is _EMPTY:
                self._ready.get()
        except BaseException:
            wait_if_abandoned()
            raise
        if item is None:
            raise StopIteration
        return item  # type: ignore[return-value]

    def poll(self, pending: Pending) -> Item | Pending | None:
        """The next item, `pending` while there is none, and None after the last one. Raises the
        stream's error once."""
        buffer = self._buffer
        try:
            item = buffer.items.popleft()
        except IndexError:
            if buffer.is_paused:
                buffer.resume()
            if not self._is_started:
                self._is_started = True
                buffer.start(self._stream)
            if not buffer.is_readable():
                return pending
            if not buffer.items:
                buffer.raise_error()
                return None
            item = buffer.items.popleft()
        if buffer.is_paused and buffer.size is None and len(buffer.items) <= BUFFER // 2:
            buffer.resume()
        return item

    def close(self) -> None:
        """Ends the stream, from any thread, and drops what has not been read."""
        if not self._buffer.is_done:
            self._abort()
        self._buffer.close()

    def leave(self) -> None:
        """The same, and waits until the stream has ended, if that is soon: what it counted is then
        final. Not for readers that `poll`."""
        self.close()
        buffer = self._buffer
        if not self._is_started or buffer.cannot_end():
            return
        end_s = time.monotonic() + _LEAVE_TIMEOUT_S
        while not buffer.is_done and (left_s := end_s - time.monotonic()) > 0:
            with contextlib.suppress(Empty):
                self._ready.get(timeout=left_s)

    def __del__(self) -> None:
        self.close()


class _Buffer(Generic[Item]):
    """What the loop and the reader share. The loop's task refers to it and not to the reader, so
    that a dropped reader is collected and ends the stream."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        wake: Callable[[], Any],
        size: Callable[[Item], int] | None,
    ) -> None:
        self.items: deque[Item] = deque()
        self.size = size
        self.is_done = False
        self.error: BaseException | None = None
        self.is_paused = False
        self._loop = loop
        self._wake = wake
        self._is_wake_due = False
        self._is_closed = False
        self._resumed = asyncio.Event()

    def start(self, stream: AsyncIterator[Item]) -> None:
        self._loop.call_soon_threadsafe(self._loop.create_task, self._fill(stream))

    def is_readable(self) -> bool:
        """False: nothing to read yet, and the loop calls `wake` when there is."""
        self._is_wake_due = True
        return bool(self.items) or self.is_done

    def cannot_end(self) -> bool:
        """Whether this thread would wait for itself, or for a loop that is closed."""
        return asyncio._get_running_loop() is self._loop or self._loop.is_closed()

    def raise_error(self) -> None:
        error, self.error = self.error, None
        if error is not None:
            raise error

    def resume(self) -> None:
        self.is_paused = False
        self._loop.call_soon_threadsafe(self._resumed.set)

    def close(self) -> None:
        self._is_closed = True
        self.items.clear()
        if not self.is_done and not self._loop.is_closed():
            self.resume()

    async def _fill(self, stream: AsyncIterator[Item]) -> None:
        items, size = self.items, self.size
        added = ahead = 0
        try:
            async for item in stream:
                if size is not None:
                    ahead = size(item) + (ahead if items else 0)
                items.append(item)
                if self._is_wake_due:
                    self._notify()
                if size is None:
                    if len(items) >= BUFFER:
                        await self._wait_until_left(BUFFER // 2)
                elif ahead >= AHEAD or ahead > added:
                    added += ahead
                    ahead = 0
                    await self._wait_until_left(0)
        except BaseException as error:
            self.error = error
        finally:
            self.is_done = True
            self._notify()

    def _notify(self) -> None:
        self._is_wake_due = False
        self._wake()

    async def _wait_until_left(self, count: int) -> None:
        """Until the reader has taken all but so many items."""
        while len(self.items) > count and not self._is_closed:
            self._resumed.clear()
            self.is_paused = True
            if len(self.items) > count and not self._is_closed:
                await self._resumed.wait()
