"""A reader: one connection on which the frames of a buffer are told, from some place on.

The client of a session is one, and there is one at a time: a newer takes over. Observers are
others; they own nothing, hold nobody up, and when they are too slow they are told what they missed.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from torvyn.protocol.encoder import Encoder
from torvyn.transport.frame_sender import Outlet
from torvyn.transport.rejection import shutting_down
from torvyn.transport.sessions.frame_buffer import FrameBuffer

if TYPE_CHECKING:
    from torvyn.transport.sessions.session import Session
    from torvyn.transport.settings import ServerSettings
    from torvyn.transport.wire import Wire


class Subscriber:
    """`run` once."""

    def __init__(
        self, buffer: FrameBuffer, epoch: str, wire: Wire, settings: ServerSettings, place: int
    ) -> None:
        self._buffer = buffer
        self._epoch = epoch
        self.wire = wire
        self._settings = settings
        self._place = place
        identity = {"id": "", "flow": "", "created": 0, "epoch": epoch}
        self._said = Encoder("torvyn", "json", **identity)
        """For what is said on this connection alone."""
        heartbeat = wire.encoder("torvyn", **identity).heartbeat
        self._outlet = Outlet(wire, settings, heartbeat, self.wake)
        self._ended: tuple[str, str, bool] | None = None
        """Why it ends before the answer does: a code, words, whether to try again."""

    async def run(self) -> None:
        await self.wire.begin({})
        listener = asyncio.get_running_loop().create_task(self._listen())
        outlet = self._outlet
        outlet.open()
        try:
            await self._tell_start()
            await self._tell()
        except asyncio.CancelledError:
            if not outlet.absorb():
                raise
        finally:
            outlet.close()
            listener.cancel()

    def wake(self) -> None:
        """Something about it has changed."""
        self._buffer.wake()

    def leave(self) -> None:
        self._outlet.is_left = True
        self.wake()

    def end(self, code: str, message: str, is_retryable: bool = False) -> None:
        """Ends it for its client, while the answer may go on."""
        self._ended = (code, message, is_retryable)
        self.wake()

    async def _tell_start(self) -> None:
        buffer = self._buffer
        while buffer.start is None and not buffer.is_over and not self._outlet.is_left:
            await buffer.changed()
        if buffer.start is not None:
            await self._outlet.deliver(self._spelled(buffer.start, 0))

    async def _tell(self) -> None:
        buffer, outlet = self._buffer, self._outlet
        while not outlet.is_left and self._ended is None:
            if self._place < buffer.first:
                await self._skip()
            frames = buffer.take(self._place, self._settings.chunk_bytes)
            if frames:
                spelled = [self._spelled(f, self._place + i) for i, f in enumerate(frames)]
                self._place += len(frames)
                is_last = buffer.is_over and self._place == buffer.next
                await outlet.deliver(*spelled, is_last=is_last)
                self._told(sum(map(len, frames)))
                if is_last:
                    return
            elif buffer.is_over:
                return
            else:
                await buffer.changed()
        if self._ended is not None:
            await self._say_ended(*self._ended)

    async def _say_ended(self, code: str, message: str, is_retryable: bool) -> None:
        """Without a number: what comes next of the answer has the next one."""
        last = self._place - 1
        error = self._said.error(code, message, is_retryable, last)
        end = self._said.end([(0, "error", None, None, None)], None, None, last)
        await self._outlet.deliver(*(self.wire.spell(f, "") for f in (error, end)), is_last=True)

    async def _skip(self) -> None:
        missed, self._place = self._buffer.first - self._place, self._buffer.first
        meta = self._said.meta(f'{{"skipped":{missed}}}', self._place - 1)
        await self._outlet.deliver(self.wire.spell(meta, ""))

    def _spelled(self, frame: bytes, seq: int) -> bytes:
        return self.wire.spell(frame, f"{self._epoch}-{seq}")

    def _told(self, size: int) -> None:
        """So much was sent."""

    async def _listen(self) -> None:
        await self.wire.until_left()
        self.leave()


class SessionClient(Subscriber):
    """The one whose session it is."""

    def __init__(self, session: Session, wire: Wire, settings: ServerSettings, place: int) -> None:
        super().__init__(session.buffer, session.epoch, wire, settings, place)
        self._session = session
        wire.bind(session.id)

    async def run(self) -> None:
        session = self._session
        session.attach(self, self._place)
        try:
            await super().run()
        finally:
            session.detach(self)

    def take_over(self) -> None:
        self.end("session.taken-over", "another connection reads this stream now")

    def wake(self) -> None:
        if self._session.is_suspended and self._ended is None:
            error = shutting_down()
            self._ended = (error.code, error.message, True)
        super().wake()

    def _told(self, size: int) -> None:
        # Who was taken over does not count any more.
        if self._session.client is self:
            self._session.seen(self._place, size)
