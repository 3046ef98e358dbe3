"""A session: an answer that outlives the connection that requested it.

The answer runs in its own task and fills a frame buffer, which clients read. While no client is
connected the engine continues until the buffer is full of unread frames, and then waits. A session
that no client resumes is ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

from torvyn.errors import TorvynError
from torvyn.protocol.encoder import Dialect, Encoder
from torvyn.transport.rejection import Rejection
from torvyn.transport.sessions.frame_buffer import FrameBuffer
from torvyn.transport.sessions.replay import Progress
from torvyn.transport.settings import KiB
from torvyn.transport.wire import Wire

if TYPE_CHECKING:
    from torvyn.transport.access.caller import Caller
    from torvyn.transport.sessions.store import SessionStore
    from torvyn.transport.sessions.subscriber import SessionClient

ALL_READ: Final = "session.all-read"
"""The code of what a client is told who has all there will ever be."""
AHEAD_BYTES: Final = 64 * KiB
"""How far an answer runs ahead of a client that is there."""


class Session:
    """Frames of one answer, for one tenant."""

    def __init__(
        self, id: str, caller: Caller, flow: str, epoch: str, limit_bytes: int, first: int = 1
    ) -> None:
        self.id = id
        self.caller = caller
        self.flow = flow
        self.epoch = epoch
        self.buffer = FrameBuffer(limit_bytes, first)
        self.store: SessionStore | None = None
        """Where frames lie before anybody sees them; None: here alone."""
        self.making: asyncio.Task[None] | None = None
        self.on_idle: Callable[[Session], None] = _nothing
        self.client: SessionClient | None = None
        """The client; observers are others."""
        self.left = asyncio.Event()
        """Nobody will come back."""
        self._limit_bytes = limit_bytes
        self._unread = first
        """The number of the first frame that its client was not sent."""
        self._unread_bytes = 0
        self._gone = Progress()
        self._is_suspended = False

    @property
    def is_over(self) -> bool:
        return self.buffer.is_over

    # Frames come in

    async def add(self, frames: Sequence[bytes]) -> None:
        """Returns when there is room for more."""
        if self._is_suspended:
            return
        is_over = _is_end(frames[-1])
        buffer, seq = self.buffer, self.buffer.next
        if self.store is not None:
            try:
                await self.store.append(self.id, seq, list(frames), is_over)
            except TorvynError:
                # What comes now, the reason why it ends, is not kept.
                self.store = None
                raise
        first = buffer.first
        for frame in frames:
            if buffer.start is not None:
                self._unread_bytes += len(frame)
            buffer.add(frame, self._forget)
        if is_over:
            buffer.end()
            if self.client is None:
                self.on_idle(self)
        elif self.store is not None and buffer.first != first:
            await self.store.forget_before(self.id, buffer.first, self._gone.to_json())
        while not self._has_room():
            await buffer.changed()

    def _has_room(self) -> bool:
        if self.is_over or self.left.is_set() or self._is_suspended:
            return True
        # The other half is for what was sent and may have been lost on its way.
        limit = self._limit_bytes // 2
        limit = min(AHEAD_BYTES, limit) if self.client else limit
        return self._unread_bytes < max(1, limit)

    def _forget(self, seq: int, frame: bytes) -> None:
        if seq >= self._unread:
            self._unread_bytes -= len(frame)
        if self.store is not None:
            self._gone.add_frame(frame)

    def suspend(self) -> None:
        """The process ends; who comes back finds the rest made by the next one."""
        self._is_suspended = True
        if self.making is not None:
            self.making.cancel()
        self.buffer.wake()
        if self.client is not None:
            self.client.wake()

    @property
    def is_suspended(self) -> bool:
        return self._is_suspended

    # Clients come and go

    def seen(self, place: int, size: int) -> None:
        """The client was sent so much more, up to that frame."""
        was_full = not self._has_room()
        self._unread, self._unread_bytes = place, self._unread_bytes - size
        if was_full:
            self.buffer.wake()

    def attach(self, reader: SessionClient, place: int) -> None:
        """It has the word from now on; who had it before is told."""
        old, self.client = self.client, reader
        if old is not None:
            old.take_over()
        self._unread, self._unread_bytes = place, self.buffer.bytes_from(place)
        self.buffer.wake()

    def detach(self, reader: SessionClient) -> None:
        if self.client is reader:
            self.client = None
            self.buffer.wake()
            self.on_idle(self)

    def place(self, after: str | None) -> int:
        """The number of the first frame that a client needs, who has all up to `after`."""
        seq = 0 if after is None else self._number(after)
        first, next = self.buffer.first, self.buffer.next
        if self.is_over and after is not None and seq == next - 1:
            message = f"the answer ended with {after}: nothing comes after it"
            raise Rejection(410, ALL_READ, message)
        if seq + 1 < first or seq >= max(1, next):
            message = f"frame {seq + 1} is not there; the answer has {first} to {next - 1}"
            raise Rejection(410, "session.frames-gone", message, hint="ask again")
        return seq + 1

    def _number(self, event_id: str) -> int:
        epoch, dash, number = event_id.rpartition("-")
        if dash and epoch != self.epoch:
            message = "that event id is of another answer"
            raise Rejection(410, "session.epoch-old", message, hint="ask without it, or anew")
        if not (number.isascii() and number.isdecimal()) or len(number) > 18:
            message = f"{event_id[:64]!r} is no event id"
            raise Rejection(400, "session.bad-id", message, hint="such as `5f3a90c1-12`")
        return int(number)

    # What is kept of it

    def refill(self, frames: Sequence[bytes], gone: str, is_over: bool) -> Progress:
        """Takes what a store had; gives how far the answer had come."""
        self._gone = Progress.parse(gone)
        progress = Progress(self._gone.said)
        for place, frame in enumerate(frames):
            self.buffer.add(frame)
            if place:
                progress.add_frame(frame)
        if is_over:
            self.buffer.end()
        return progress


class SessionWire(Wire):
    """Into the ring of a session. Nobody waits at its end, so there are no heartbeats."""

    is_watched: ClassVar[bool] = False
    __slots__ = ("_is_resumed", "_session")

    def __init__(self, request_id: str, session: Session, peer: str | None = None) -> None:
        super().__init__(request_id, session.caller, self._add, "/v1/streams", peer)
        self._session = session
        self._is_resumed = session.buffer.start is not None

    def encoder(self, dialect: Dialect, **identity: Any) -> Encoder:
        encoder = Encoder("torvyn", "json", **{**identity, "epoch": self._session.epoch})
        if self._is_resumed:
            encoder.meta("{}", self._session.buffer.next - 1)  # it goes on counting from there
        return encoder

    def pack(self, frames: Sequence[bytes], is_last: bool = False) -> Any:
        return frames

    def spell(self, frame: bytes, event_id: str) -> bytes:
        return frame

    async def begin(self, headers: Mapping[str, str]) -> None:
        """Those who read it get a head each."""

    async def until_left(self) -> None:
        """Never: what nobody comes back for is cancelled, and those who watch it hear the end."""
        await asyncio.get_running_loop().create_future()

    async def _add(self, frames: Sequence[bytes]) -> None:
        if self._is_resumed:
            # The start is there already.
            self._is_resumed = False
            frames = frames[1:]
        if frames:
            await self._session.add(frames)


def _is_end(frame: bytes) -> bool:
    return frame.startswith(b'{"type":"end"')


def _nothing(session: Session) -> None:
    """Until somebody looks after it."""
