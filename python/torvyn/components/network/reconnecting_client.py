"""Keeps one connection on the background loop: connects, waits until the connection is lost, and
connects again, with delays that grow.

The reconnecting of the libraries is off: here a lost connection is reported, and there is no last
try.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any, Final

from torvyn._io.background_loop import background_loop, wait_for
from torvyn._io.backoff import Backoff
from torvyn._io.connection import Connection
from torvyn._io.event_loop import end_task, is_ending
from torvyn._io.restart import keep_task_running

CLOSE_TIMEOUT_S: Final = 3.0


class ReconnectingClient:
    """A subclass says what one connection is, in `session`."""

    def __init__(
        self, connection: Connection, on_disconnect: str, on_failed: Callable[[], None]
    ) -> None:
        self.failure: str | None = None
        """Why it has given up, if it was told to fail."""
        self._connection = connection
        self._fails = on_disconnect == "fail"
        self._on_failed = on_failed
        self._backoff = Backoff()
        self._loop = background_loop()
        self._task: asyncio.Task[None] | None = None
        self._is_started = False

    async def session(self) -> str:
        """One connection from its beginning to its end; returns why it has ended. Calls
        `established` in between, and is cancelled by `stop`."""
        raise NotImplementedError

    def established(self) -> None:
        """The connection may be used."""
        self._connection.connected()
        self._backoff.reset()

    def start(self) -> None:
        self._is_started = True
        self.submit(self._run())

    def submit(self, coroutine: Coroutine[Any, Any, None]) -> concurrent.futures.Future[None]:
        """Runs a coroutine on the loop. May be called from any thread."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def call_soon(self, callback: Callable[[], Any]) -> None:
        self._loop.call_soon_threadsafe(callback)

    def stop(self) -> None:
        """Closes the connection. May be called from any thread but the loop's."""
        if self._is_started:
            with contextlib.suppress(TimeoutError):
                wait_for(self._end(), self._loop, 2 * CLOSE_TIMEOUT_S)

    async def _run(self) -> None:
        self._task = asyncio.current_task()
        await keep_task_running(self._keep_connection, self._lost)

    async def _keep_connection(self) -> None:
        while self.failure is None:
            reason = await self.session()
            if is_ending():
                return
            self._lost(reason)
            if self.failure is None:
                await asyncio.sleep(self._backoff.next_delay_s())

    def _lost(self, reason: str) -> None:
        self._connection.lost(reason)
        if self._fails:
            self.failure = reason
            self._on_failed()

    async def _end(self) -> None:
        # It was started before this coroutine, so there is a task.
        assert self._task is not None
        await end_task(self._task)
