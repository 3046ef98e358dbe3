"""Sends frames over a wire and watches it.

It sends a heartbeat when nothing was sent for a while, the first one not before `first_byte_wait`;
and it cuts off a client that reads nothing for too long.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from torvyn.transport.settings import ServerSettings
from torvyn.transport.wire import Wire

if TYPE_CHECKING:
    from torvyn.engine.answer.direct_path import DirectText

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
        "_opened_s",
        "_post",
        "_sending",
        "_settings",
        "_since_s",
        "_task",
        "_time",
        "_timer",
        "_wire",
        "direct",
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
        self._post = wire.post
        self._settings = settings
        self._heartbeat = heartbeat
        self._on_left = on_left
        self._sending = 0
        self._opened_s = self._since_s = self._last_s = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self.is_left = False
        """The client has left."""
        self.is_cut = False
        self.is_over = False
        """Nothing may follow, such as a heartbeat."""
        self.direct: DirectText | None = None
        """Sends text in native code beside it."""

    def open(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        self._time = self._loop.time
        self._opened_s = self._last_s = self._time()
        if self._wire.is_watched:
            self._wire.when_half_closed(self._probe)
        if self._wire.is_watched or not self._wire.has_begun:
            pause_s = min(self._pause_s(), self._settings.first_byte_wait_s)
            self._timer = self._loop.call_later(pause_s, self._tick)

    def close(self) -> None:
        # Also for a heartbeat that is on its way: an error may take the place of what is held.
        self.is_over = True
        if self._timer is not None:
            self._timer.cancel()
            self._wire.when_half_closed(None)
        # Breaks the reference cycle with the call, which would live until a garbage collection.
        self._on_left = _nothing
        self._task = None

    def absorb_cut(self) -> bool:
        """Takes the cancellation of its task back if a cut caused it; False: something else did."""
        if self.is_cut and self._task is not None:
            self._task.uncancel()
            return True
        return False

    def send(
        self, post: Callable[..., Awaitable[None] | None], *what: Any
    ) -> Awaitable[None] | None:
        """Posts without a coroutine of its own; returns what remains to wait for, if anything.
        `post` is the wire's, or a function of `Wire.text_poster`."""
        if self.is_left:
            return None
        self._last_s = self._time()
        try:
            rest = post(*what)
        except OSError:
            self._leave()
            return None
        return None if rest is None else self.wait_for(rest)

    async def wait_for(self, rest: Awaitable[None]) -> None:
        """Waits for the rest of a post; the write timeout counts."""
        self._start_wait()
        try:
            await rest
        except OSError:
            self._leave()
        finally:
            self._end_wait()

    async def deliver(self, *frames: bytes, is_last: bool = False) -> None:
        if self.is_left or self.is_over or not frames:
            return
        self.is_over = is_last
        self._last_s = self._time()
        self._start_wait()
        try:
            if (rest := self._post(frames, is_last)) is not None:
                await rest
            if is_last:
                self._wire.abort_after(self._settings.write_timeout_s)
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
            self._since_s = self._last_sent_s()

    def _end_wait(self) -> None:
        self._sending -= 1
        if self._sending:
            # One of several sends has finished: the client reads.
            self._since_s = self._time()

    def _last_sent_s(self) -> float:
        # Text may be sent in native code beside it.
        if (idle_s := self._wire.idle_s) is not None:
            self._last_s = max(self._last_s, self._time() - idle_s)
        return self._last_s

    def _pause_s(self) -> float:
        return min(self._settings.heartbeat_s, self._settings.write_timeout_s / 4)

    def _tick(self) -> None:
        """Checks the write timeout and sends a heartbeat when it is due."""
        now_s = self._time()
        settings = self._settings
        pause_s = self._pause_s()
        if self._sending:
            if self._wire.is_watched and now_s - self._since_s >= settings.write_timeout_s:
                self._cut()
                return
        elif (due_s := self._beat_due_s() - now_s) <= 0:
            self._beat()
        else:
            pause_s = min(pause_s, due_s)
        if self._wire.is_watched or not self._wire.has_begun:
            self._timer = self._loop.call_later(pause_s, self._tick)

    def _beat_due_s(self) -> float:
        if not self._wire.has_begun:
            return self._opened_s + self._settings.first_byte_wait_s
        return self._last_sent_s() + self._settings.heartbeat_s

    def _probe(self) -> None:
        """The client sends no more. If it is gone, this makes its system say so. Before the first
        byte too, although the head leaves with it and a failure is then an event: most clients that
        leave look like this, and their engines would run until `first_byte_wait`."""
        if not self._sending and not self.is_over:
            self._beat()

    def _beat(self) -> None:
        """What is held leaves too. Where many answers share a connection, nothing else does."""
        frame = self._heartbeat() if self._wire.is_watched else b""
        self._beating = self._loop.create_task(self.deliver(frame))

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
