"""Sends frames over a wire and watches it.

It sends a heartbeat when nothing was sent for a while, and cuts off a client that reads nothing for
too long.
"""

from __future__ import annotations

import asyncio
import logging
import types
from collections.abc import Awaitable, Callable, Generator, Sequence
from typing import Any

from torvyn.transport.settings import ServerSettings
from torvyn.transport.wire import Wire

logger = logging.getLogger("torvyn.transport")


class FrameSender:
    """Use it between `open` and `close`, in the task that sends. A cut cancels that task:
    `absorb_cut` takes the cancellation back."""

    __slots__ = (
        "_beating",
        "_heartbeat",
        "_last_s",
        "_loop",
        "_on_left",
        "_send",
        "_sending",
        "_settings",
        "_since_s",
        "_task",
        "_time",
        "_timer",
        "_wire",
        "chunks",
        "is_cut",
        "is_left",
        "is_over",
    )

    def __init__(
        self,
        wire: Wire,
        settings: ServerSettings,
        heartbeat: Callable[[], bytes],
        on_left: Callable[[], None],
    ) -> None:
        self._wire = wire
        self._send = wire.send
        self._settings = settings
        self._heartbeat = heartbeat
        self._on_left = on_left
        self._sending = 0
        self._since_s = self._last_s = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self.is_left = False
        """The client has left."""
        self.is_cut = False
        self.is_over = False
        """The last chunk was sent; no heartbeat may follow."""
        self.chunks = 0
        """Chunks sent, with the first and the last one."""

    def open(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        self._time = self._loop.time
        self._last_s = self._time()
        if self._wire.is_watched:
            self._timer = self._loop.call_later(self._pause_s(), self._tick)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        # Breaks the reference cycle with the call, which would live until a garbage collection.
        self._on_left = _nothing
        self._task = None

    def absorb_cut(self) -> bool:
        """Takes the cancellation of its task back if a cut caused it; False: something else did."""
        if self.is_cut and self._task is not None:
            self._task.uncancel()
            return True
        return False

    def send(self, frames: Sequence[bytes]) -> Awaitable[None] | None:
        """Sends without a coroutine of its own; returns what remains to wait for, if anything."""
        if self.is_left:
            return None
        self.chunks += 1
        self._last_s = self._time()
        try:
            sending: Any = self._send(self._wire.pack(frames)).__await__()
            waits_for = next(sending)
        except StopIteration:
            return None
        except OSError:
            self._leave()
            return None
        return self._finish_send(sending, waits_for)

    @types.coroutine
    def _finish_send(self, sending: Any, waits_for: Any) -> Generator[Any, Any, None]:
        self._start_wait()
        try:
            yield from _resumed(sending, waits_for)
        except OSError:
            self._leave()
        finally:
            self._end_wait()

    async def deliver(self, *frames: bytes, is_last: bool = False) -> None:
        if self.is_left or self.is_over or not frames:
            return
        self.is_over = is_last
        self.chunks += 1
        self._last_s = self._time()
        self._start_wait()
        try:
            await self._send(self._wire.pack(frames, is_last))
        except OSError:
            self._leave()
        finally:
            self._end_wait()

    def _leave(self) -> None:
        self.is_left = True
        self._on_left()

    def _start_wait(self) -> None:
        """The write timeout starts."""
        self._sending += 1
        if self._sending == 1:
            self._since_s = self._last_s

    def _end_wait(self) -> None:
        self._sending -= 1
        if self._sending:
            # One of several sends has finished: the client reads.
            self._since_s = self._time()

    def _pause_s(self) -> float:
        return min(self._settings.heartbeat_s, self._settings.write_timeout_s / 4)

    def _tick(self) -> None:
        """Checks the write timeout and sends a heartbeat when it is due."""
        now_s = self._time()
        settings = self._settings
        pause_s = self._pause_s()
        if self._sending:
            if now_s - self._since_s >= settings.write_timeout_s:
                self._cut()
                return
        elif (due_s := self._last_s + settings.heartbeat_s - now_s) <= 0:
            self._beating = self._loop.create_task(self.deliver(self._heartbeat()))
        else:
            pause_s = min(pause_s, due_s)
        self._timer = self._loop.call_later(pause_s, self._tick)

    def _cut(self) -> None:
        """The client reads nothing: drops what is being sent."""
        self.is_cut = self.is_left = True
        logger.warning(
            "request %s: the client read nothing for %g s",
            self._wire.request_id,
            self._settings.write_timeout_s,
        )
        if self._task is not None:
            self._task.cancel()


def _nothing() -> None:
    """Replaces `on_left` after the end."""


def _resumed(sending: Any, waits_for: Any) -> Generator[Any, Any, None]:
    """The rest of a wait that has begun; the sender sees how it ends."""
    throw = getattr(sending, "throw", None)
    while True:
        try:
            try:
                yield waits_for
            except BaseException as error:
                if throw is None:
                    raise
                waits_for = throw(error)
            else:
                waits_for = next(sending)
        except StopIteration:
            return
