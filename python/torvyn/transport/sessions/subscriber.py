"""A subscriber: one connection that reads the frames of a buffer, from a position on.

A session has one client at a time: a newer connection takes over. Observers own nothing and hold
nothing up; one that is too slow gets the number of frames that it missed.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from torvyn.protocol.encoder import Encoder
from torvyn.transport.frame_sender import FrameSender
from torvyn.transport.rejection import Rejection, is_retryable, shutting_down, unknown_stream
from torvyn.transport.sessions.frame_buffer import FrameBuffer

if TYPE_CHECKING:
    from torvyn.errors import TorvynError
    from torvyn.transport.sessions.session import Session
    from torvyn.transport.settings import ServerSettings
    from torvyn.transport.wire import Wire


class Subscriber:
    """Call `run` once. An observer is a plain `Subscriber`."""

    def __init__(
        self, buffer: FrameBuffer, epoch: str, wire: Wire, settings: ServerSettings, seq: int
    ) -> None:
        self._buffer = buffer
        self._epoch = epoch
        self.wire = wire
        self._settings = settings
        self._seq = seq
        """The number of the next frame to send."""
        identity = {"id": "", "flow": "", "created": 0, "epoch": epoch}
        self._encoder = Encoder("torvyn", "json", **identity)
        """For frames of this connection only."""
        heartbeat = wire.encoder("torvyn", **identity).heartbeat
        self._sender = FrameSender(wire, settings, heartbeat, self.wake)
        self._end_reason: TorvynError | None = None
        """Why it ends before the answer does."""

    async def run(self) -> None:
        self.wire.hold({}, b"")
        listener = asyncio.get_running_loop().create_task(self._listen())
        sender = self._sender
        try:
            await self._until_start()
            sender.open()
            await self._send_start()
            await self._send_frames()
        except asyncio.CancelledError:
            if not sender.absorb_cut():
                raise
        finally:
            self.wire.when_half_closed(None)
            sender.close()
            listener.cancel()

    def wake(self) -> None:
        """Makes it check its state again."""
        self._buffer.wake()

    def leave(self) -> None:
        self._sender.is_left = True
        self.wake()

    def end(self, reason: TorvynError) -> None:
        """Ends this connection; the answer may continue."""
        self._end_reason = reason
        self.wake()

    async def _until_start(self) -> None:
        """Whoever generates the answer lets it begin in time. Nothing can be sent before that would
        show whether the client still reads."""
        buffer = self._buffer
        if buffer.start is not None or buffer.is_over:
            return
        self.wire.when_half_closed(self.leave)
        while (
            buffer.start is None
            and not buffer.is_over
            and not self._sender.is_left
            and self._end_reason is None
        ):
            await buffer.changed()

    async def _send_start(self) -> None:
        buffer = self._buffer
        if buffer.start is not None:
            # Not with its own number: an `EventSource` that loses its connection again continues
            # behind the last id that it has seen.
            await self._sender.deliver(self._encoded(buffer.start, self._seq - 1))
        elif buffer.is_over:
            self._end_reason = self._end_reason or self._failure()

    def _failure(self) -> TorvynError:
        """Why there are no frames at all."""
        return unknown_stream()

    async def _send_frames(self) -> None:
        buffer, sender = self._buffer, self._sender
        while not sender.is_left and self._end_reason is None:
            if self._seq < buffer.first:
                await self._skip()
                continue  # more may have been dropped meanwhile
            frames = buffer.take(self._seq, self._settings.chunk_bytes)
            if frames:
                encoded = [self._encoded(frame, self._seq + i) for i, frame in enumerate(frames)]
                self._seq += len(frames)
                is_last = buffer.is_over and self._seq == buffer.next
                await sender.deliver(*encoded, is_last=is_last)
                self._on_sent(sum(map(len, frames)))
                if is_last:
                    return
            elif buffer.is_over:
                return
            else:
                await buffer.changed()
        if self._end_reason is not None:
            await self._send_end(self._end_reason)

    async def _send_end(self, reason: TorvynError) -> None:
        """These frames take no new number: the next frame of the answer has that one."""
        if not self.wire.has_begun:
            raise reason
        last = self._seq - 1
        error = self._encoder.error(reason.code, reason.message, is_retryable(reason), last)
        end = self._encoder.end([(0, "error", None, None, None)], None, None, last)
        await self._sender.deliver(
            *(self.wire.encode_stored(f, "") for f in (error, end)), is_last=True
        )

    async def _skip(self) -> None:
        missed, self._seq = self._buffer.first - self._seq, self._buffer.first
        meta = self._encoder.meta(f'{{"skipped":{missed}}}', self._seq - 1)
        await self._sender.deliver(self.wire.encode_stored(meta, ""))

    def _encoded(self, frame: bytes, seq: int) -> bytes:
        return self.wire.encode_stored(frame, f"{self._epoch}-{seq}")

    def _on_sent(self, size_bytes: int) -> None:
        """Called after frames were sent."""

    async def _listen(self) -> None:
        await self.wire.until_left()
        self.leave()


class SessionClient(Subscriber):
    """The one client of a session, whose pace the answer follows."""

    def __init__(self, session: Session, wire: Wire, settings: ServerSettings, seq: int) -> None:
        super().__init__(session.buffer, session.epoch, wire, settings, seq)
        self._session = session
        wire.bind(session.id)

    async def run(self) -> None:
        session = self._session
        session.attach(self, self._seq)
        try:
            await super().run()
        finally:
            session.detach(self)

    def take_over(self) -> None:
        message = "another connection reads this stream now"
        self.end(Rejection(409, "session.taken-over", message))

    def _failure(self) -> TorvynError:
        return self._session.failure or unknown_stream()

    def wake(self) -> None:
        if self._session.is_suspended and self._end_reason is None:
            self._end_reason = self._session.lost or shutting_down()
        super().wake()

    def _on_sent(self, size_bytes: int) -> None:
        # A client that was taken over no longer counts.
        if self._session.client is self:
            self._session.mark_sent(self._seq, size_bytes)
