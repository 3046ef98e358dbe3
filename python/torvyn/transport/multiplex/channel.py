"""A channel: one connection that many streams share, and a strand: one stream's way over it.

A strand sends while its client grants it frames, if the client wants to grant them at all; who
grants nothing holds up that stream and no other. The start, and what comes together with the end,
need no credit: whatever was begun can end.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from torvyn.protocol.encoder import Dialect, Encoder
from torvyn.transport.frame_sender import Outlet
from torvyn.transport.rejection import Rejection
from torvyn.transport.wire import Wire

if TYPE_CHECKING:
    from torvyn.protocol.proto_encoder import ProtoEncoder

Packed = tuple[Sequence[bytes], bool]


class Channel(Wire):
    """`pack` takes one frame. What `send` was given is sent, also when who awaits it is cancelled:
    an engine is interrupted by its reader's task, which may be sending just then."""

    __slots__ = ()

    @abstractmethod
    def let_go(self) -> None:
        """Nobody is there: whoever waits in `send` waits no longer."""

    @abstractmethod
    def tag(self, stream_id: str) -> Callable[[bytes, str], bytes]:
        """What gives a frame the name of its stream, and a start frame its epoch too, which is
        empty for others."""

    @abstractmethod
    def note(self, kind: str, stream_id: str | None = None, **said: Any) -> bytes:
        """What is no frame of an answer: `heartbeat`, `pong`, `refused`."""


class ChannelStream(Wire):
    """The wire of one stream. What it sends goes out by the outlet of the whole channel, which
    watches for all of them."""

    is_watched: ClassVar[bool] = False
    __slots__ = (
        "_channel",
        "_credit",
        "_epoch",
        "_granted",
        "_has_begun",
        "_left",
        "_on_last",
        "_on_withheld",
        "_outlet",
        "_patience_s",
        "_tag",
        "_unsent",
        "answer_id",
        "dropped",
        "stream_id",
        "task",
    )

    def __init__(
        self,
        channel: Channel,
        outlet: Outlet,
        stream_id: str,
        credit: int | None,
        patience_s: float,
        on_withheld: Callable[[ChannelStream], None],
        on_last: Callable[[ChannelStream], None],
    ) -> None:
        """Told are a client that grants nothing for so long, and that the last is about to go."""
        super().__init__(
            channel.request_id, channel.caller, self._go_out, channel.path, channel.peer
        )
        self.stream_id = stream_id
        self.answer_id: str | None = None
        """Of the answer that goes over it; None until there is one, and for who only watches."""
        self.task: asyncio.Future[None] | None = None
        self.dropped: Rejection | None = None
        """Why no more of it comes, when its answer does not say so itself."""
        self._channel = channel
        self._outlet = outlet
        self._credit = credit
        self._patience_s = patience_s
        self._on_withheld = on_withheld
        self._on_last = on_last
        self._tag = channel.tag(stream_id)
        self._epoch = ""
        self._has_begun = False
        self._unsent: deque[bytes] = deque()
        """Frames that wait. Who is cancelled while it waits leaves them to the next who sends."""
        self._granted: asyncio.Event | None = None
        """While it waits for credit."""
        self._left = asyncio.Event()

    def encoder(self, dialect: Dialect, **identity: Any) -> Encoder | ProtoEncoder:
        self._epoch = identity.get("epoch", "")
        return self._channel.encoder(dialect, **identity)

    def pack(self, frames: Sequence[bytes], is_last: bool = False) -> Packed:
        return frames, is_last

    def spell(self, frame: bytes, event_id: str) -> bytes:
        return self._channel.spell(frame, event_id)

    async def begin(self, headers: Mapping[str, str]) -> None:
        """There is no head: the channel has one."""

    async def until_left(self) -> None:
        await self._left.wait()

    def bind(self, id: str) -> None:
        self.answer_id = id

    def hurry(self) -> None:
        self._credit = None
        if self._granted is not None:
            self._granted.set()

    def leave(self) -> None:
        """Nobody reads this stream any more; others of the channel may go on."""
        self._left.set()
        self.hurry()

    def grant(self, frames: int) -> None:
        if self._credit is not None:
            self._credit += frames
            if self._granted is not None:
                self._granted.set()

    async def _go_out(self, packed: Packed) -> None:
        frames, is_last = packed
        unsent = self._unsent
        unsent.extend(frames)
        if is_last:
            self._on_last(self)
        while unsent:
            epoch = ""
            if not self._has_begun:
                self._has_begun, epoch = True, self._epoch
            elif self._credit is not None and not is_last:
                await self._allowed()
            if self._left.is_set():
                return
            await self._outlet.deliver(self._tag(unsent.popleft(), epoch))

    async def _allowed(self) -> None:
        """Until one more frame may leave."""
        if self._credit == 0:
            self._granted = asyncio.Event()
            loop = asyncio.get_running_loop()
            timer = loop.call_later(self._patience_s, self._on_withheld, self)
            try:
                await self._granted.wait()
            finally:
                timer.cancel()
                self._granted = None
        if self._credit is not None:
            self._credit -= 1
