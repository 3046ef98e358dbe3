"""A session: an answer that outlives the connection that requested it.

The answer runs in its own task and fills a frame buffer, which clients read. While no client is
connected the engine continues until the buffer is full of unread frames, and then waits. A session
that no client resumes is ended.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol

from torvyn._io.event_loop import begin_wait
from torvyn.errors import TorvynError
from torvyn.protocol.encoder import Dialect, Encoder
from torvyn.transport.rejection import Rejection
from torvyn.transport.sessions.frame_buffer import FrameBuffer
from torvyn.transport.sessions.replay import Progress
from torvyn.transport.sessions.store import SessionLost
from torvyn.transport.settings import KiB
from torvyn.transport.wire import Wire

if TYPE_CHECKING:
    from torvyn.transport.access.caller import Caller
    from torvyn.transport.sessions.servers.owner_link import OwnerLink
    from torvyn.transport.sessions.store import FrameStore
    from torvyn.transport.sessions.store_file import StoredSession

ALL_READ: Final = "session.all-read"
"""The code of the rejection for a client that has received the whole answer."""
CATCH_UP_S: Final = 2.0
AHEAD_BYTES: Final = 64 * KiB
"""How far an answer may run ahead of a connected client."""


class SessionReader(Protocol):
    """The client of a session, here or at another server."""

    def take_over(self) -> None:
        """Another connection is the client now."""

    def wake(self) -> None:
        """Makes it check the state of the session."""


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
        self.store: FrameStore | None = None
        """Stores frames before any client sees them; None: in memory only."""
        self.task: asyncio.Task[None] | None = None
        """Runs the answer."""
        self._storing: asyncio.Future[None] | None = None
        """The frames that were given to the store last."""
        self.stopping: asyncio.Future[None] | None = None
        """Stores that a client has stopped it."""
        self.on_idle: Callable[[Session], None] = _ignore
        """Called when it has no client."""
        self.share_bytes: Callable[[], int] = lambda: limit_bytes
        """What it may keep at the moment: less than its limit among many sessions."""
        self.on_lost: Callable[[Session], None] = _ignore
        """Called when another server may continue it, and this one cannot."""
        self.link: OwnerLink | None = None
        """To the server that generates the answer, if that is another one."""
        self.client: SessionReader | None = None
        self.is_forgotten = asyncio.Event()
        """It was deleted: no client will resume it."""
        self._unread = first
        """The number of the first frame that was not sent to its client."""
        self._unread_bytes = 0
        self._dropped = Progress()
        self._is_suspended = False
        self.failure: TorvynError | None = None
        """Why its answer has no frames at all."""
        self.lost: SessionLost | None = None
        """Why this server no longer generates it."""

    @property
    def is_over(self) -> bool:
        return self.buffer.is_over

    # Frames

    async def add(self, frames: Sequence[bytes]) -> None:
        """Returns when the buffer has capacity for more."""
        if self._is_suspended:
            return
        if self.store is None:
            self._keep(frames, _is_end(frames[-1]))
        else:
            await self._store(frames)
        while not self._has_capacity():
            await self.buffer.changed()

    async def _store(self, frames: Sequence[bytes]) -> None:
        """Whoever is cancelled while frames are stored leaves them stored and in the buffer: the
        frames of the end follow them."""
        if self._storing is not None:
            await asyncio.wait([self._storing])
        self._storing = asyncio.ensure_future(self._store_whole(frames))
        self._storing.add_done_callback(_retrieve)
        await asyncio.shield(self._storing)

    async def _store_whole(self, frames: Sequence[bytes]) -> None:
        store, is_over, first = self.store, _is_end(frames[-1]), self.buffer.first
        if store is not None and not self._is_suspended:
            try:
                await self._append(store, self.buffer.next, list(frames), is_over)
            except SessionLost as lost:
                self.lose(lost)
                return
            except TorvynError:
                # The error frames that follow are not stored.
                self.store = None
                raise
        self._keep(frames, is_over)
        if store is not None and not is_over and self.buffer.first != first:
            await store.forget_before(self.id, self.buffer.first, self._dropped.to_json())

    async def _append(
        self, store: FrameStore, seq: int, frames: list[bytes], is_over: bool
    ) -> None:
        if not seq and len(frames) > 1:
            # The start frame is kept for longer than those after it.
            await store.append(self.id, 0, frames[:1], False)
            seq, frames = 1, frames[1:]
        await store.append(self.id, seq, frames, is_over)

    def _keep(self, frames: Sequence[bytes], is_over: bool) -> None:
        self.fill(frames)
        self.trim()
        if is_over:
            self.buffer.end()
            if self.client is None:
                self.on_idle(self)

    def fill(self, frames: Sequence[bytes]) -> None:
        """Adds frames that need not be stored."""
        for frame in frames:
            if self.buffer.start is not None:
                self._unread_bytes += len(frame)
            self.buffer.add(frame, self._on_drop)

    def _has_capacity(self) -> bool:
        if self.is_over or self.is_forgotten.is_set() or self._is_suspended:
            return True
        # The other half is for frames that were sent and may have been lost.
        limit = self.share_bytes() // 2
        limit = min(AHEAD_BYTES, limit) if self.client else limit
        return self._unread_bytes < max(1, limit)

    def trim(self) -> None:
        """Drops frames that its client was sent, until it keeps no more than its share."""
        self.buffer.trim(self.share_bytes(), self._unread, self._on_drop)

    def _on_drop(self, seq: int, frame: bytes) -> None:
        if seq >= self._unread:
            self._unread_bytes -= len(frame)
        if self.store is not None:
            self._dropped.add_frame(frame)

    def stop(self, kind: str) -> None:
        """A client stops or cancels the answer: no server or process continues it."""
        if self.store is not None and not self.is_over:
            self.stopping = asyncio.ensure_future(self.store.stop(self.id, kind))
            self.stopping.add_done_callback(_retrieve)

    def suspend(self) -> None:
        """Stops the answer; the next process continues it for the client that resumes."""
        self._is_suspended = True
        if self.task is not None:
            self.task.cancel()
        if self._storing is not None and self._storing is not asyncio.current_task():
            self._storing.cancel()
        self.buffer.wake()
        if self.client is not None:
            self.client.wake()

    def lose(self, why: SessionLost) -> None:
        """Ends it here, for its client and this server; its frames are not over."""
        if not self._is_suspended:
            self.lost = why
            self.suspend()
            self.on_lost(self)

    @property
    def is_suspended(self) -> bool:
        return self._is_suspended

    # Clients

    def mark_sent(self, seq: int, size_bytes: int) -> None:
        """The client was sent that many bytes more, up to the frame before `seq`."""
        was_full = not self._has_capacity()
        self._unread, self._unread_bytes = seq, self._unread_bytes - size_bytes
        if was_full:
            self.buffer.wake()
        if self.link is not None:
            self.link.sent(seq, size_bytes)

    def mark_sent_before(self, seq: int) -> None:
        """The client was sent all frames before that one."""
        if seq > self._unread:
            self.mark_sent(seq, self._unread_bytes - self.buffer.bytes_from(seq))

    def attach(self, client: SessionReader, seq: int) -> None:
        """Makes it the client of the session; ends the connection of the client before it."""
        old, self.client = self.client, client
        if old is not None:
            old.take_over()
        self._unread, self._unread_bytes = seq, self.buffer.bytes_from(seq)
        self.buffer.wake()
        if self.link is not None:
            self.link.attached(seq)

    def detach(self, client: SessionReader) -> None:
        if self.client is client:
            self.client = None
            self.buffer.wake()
            if self.link is not None:
                self.link.detached()
            else:
                self.on_idle(self)

    @property
    def unread(self) -> int:
        """The number of the first frame that was not sent to its client."""
        return self._unread

    def seq_after(self, after: str | None) -> int:
        """The number of the frame after the one with that event id. Raises a rejection."""
        seq = 0 if after is None else self._seq_of(after)
        first, next = self.buffer.first, self.buffer.next
        if self.is_over and after is not None and seq == next - 1:
            message = f"the answer ended with frame {after}"
            raise Rejection(410, ALL_READ, message)
        if seq + 1 < first or seq >= max(1, next):
            message = f"frame {seq + 1} is not available; frames {first} to {next - 1} are"
            raise Rejection(410, "session.frames-gone", message, hint="send the request again")
        return seq + 1

    async def catch_up(self, after: str | None, timeout_s: float = CATCH_UP_S) -> None:
        """Waits a moment for a frame that the client has from another server: the broker may have
        confirmed it to that one first. Raises a rejection."""
        if after is None:
            return
        seq = self._seq_of(after)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while seq >= self.buffer.next and not self.is_over and not self._is_suspended:
                    await self.buffer.changed()

    def _seq_of(self, event_id: str) -> int:
        epoch, dash, number = event_id.rpartition("-")
        if dash and epoch != self.epoch:
            message = "the event id belongs to another answer"
            hint = "resume without it, or send the request again"
            raise Rejection(410, "session.epoch-old", message, hint=hint)
        if not (number.isascii() and number.isdecimal()) or len(number) > 18:
            message = f"{event_id[:64]!r} is not an event id"
            raise Rejection(400, "session.bad-id", message, hint="for example `5f3a90c1-12`")
        return int(number)

    # The store

    def refill(self, stored: StoredSession) -> Progress:
        """Takes the frames of a store; returns the progress of the answer."""
        start, *frames = stored.frames
        self._dropped = Progress.parse(stored.dropped)
        progress = Progress(self._dropped.counts)
        for frame in frames:
            progress.add_frame(frame)
        self.buffer.replace(start, stored.first, frames)
        self._unread_bytes = self.buffer.bytes_from(self._unread)
        if stored.is_over:
            self.buffer.end()
        return progress


class SessionWire(Wire):
    """Writes into the buffer of a session, and so needs no heartbeats."""

    is_watched: ClassVar[bool] = False
    __slots__ = ("_held", "_session")

    def __init__(self, session: Session, peer: str | None = None) -> None:
        super().__init__(session.id, session.caller, "/v1/streams", peer)
        self._session = session
        self._held: tuple[bytes, ...] = ()
        """The start frame, until there is more."""

    def encoder(self, dialect: Dialect, **identity: Any) -> Encoder:
        encoder = Encoder("torvyn", "json", **{**identity, "epoch": self._session.epoch})
        if self.has_begun:
            encoder.meta("{}", self._session.buffer.next - 1)  # continues the numbers
        return encoder

    def post(self, frames: Sequence[bytes], is_last: bool = False) -> Awaitable[None] | None:
        return begin_wait(self._add(frames))

    def encode_stored(self, frame: bytes, event_id: str) -> bytes:
        return frame

    def hold(self, headers: Mapping[str, str], start: bytes) -> None:
        if not self.has_begun:  # by an earlier process
            self._held = (start,)

    @property
    def has_begun(self) -> bool:
        return self._session.buffer.start is not None

    def stopping(self, kind: str) -> None:
        self._session.stop(kind)

    async def until_left(self) -> None:
        """Never returns: a session that no client resumes is cancelled."""
        await asyncio.get_running_loop().create_future()

    async def _add(self, frames: Sequence[bytes]) -> None:
        held, self._held = self._held, ()
        if ready := [frame for frame in (*held, *frames) if frame]:
            await self._session.add(ready)


def _is_end(frame: bytes) -> bool:
    return frame.startswith(b'{"type":"end"')


def _retrieve(storing: asyncio.Future[None]) -> None:
    """Its failure is raised where frames are added, unless that task was cancelled."""
    if not storing.cancelled():
        storing.exception()


def _ignore(session: Session) -> None:
    """Until a registry sets `on_idle`."""
