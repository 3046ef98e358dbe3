"""A channel: one connection that many streams share; and the wire of each stream over it.

If a client uses credit, a stream sends only as many frames as the client grants, and a client that
grants none holds up that stream only. The start frame and the last frames need no credit, so every
stream can end.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from torvyn._io.event_loop import begin_wait
from torvyn.engine.request import new_id
from torvyn.protocol.encoder import Dialect, Encoder
from torvyn.transport.frame_sender import FrameSender
from torvyn.transport.http.exchange import TextPoster
from torvyn.transport.rejection import Rejection
from torvyn.transport.wire import Wire

if TYPE_CHECKING:
    from torvyn.engine.answer.direct_path import DirectText
    from torvyn.protocol.proto_encoder import ProtoEncoder


class Channel(Wire):
    """`post` takes one frame, and completes even if its caller is cancelled: interrupting an engine
    cancels the task that reads it, which may be sending at that moment."""

    __slots__ = ()

    @abstractmethod
    async def open(self) -> None:
        """Accepts the connection."""

    def hold(self, headers: Mapping[str, str], start: bytes) -> None:
        """Nothing to hold: a channel sends what it is given."""

    @abstractmethod
    def abandon_sends(self) -> None:
        """The client has left: ends every `post` that waits."""

    @abstractmethod
    def tagger(self, stream_id: str) -> Callable[[bytes, str], bytes]:
        """A function that adds the stream id to a frame, and the epoch to a start frame; for other
        frames the epoch is empty."""

    def stream_text_poster(self, stream_id: str, encoder: Encoder | ProtoEncoder) -> TextPoster:
        """A function that encodes new text of that stream and posts it."""
        tag = self.tagger(stream_id)

        def post(text: str, index: int, kind: str) -> Awaitable[None] | None:
            frame = encoder.text(text, index, kind)
            return self.post((tag(frame, ""),)) if frame else None

        return post

    def stream_direct_text(
        self, stream_id: str, encoder: Encoder | ProtoEncoder, most_texts: int, most_bytes: int
    ) -> DirectText | None:
        """`direct_text` of that stream."""
        return None

    @abstractmethod
    def control_message(self, kind: str, stream_id: str | None = None, **fields: Any) -> bytes:
        """A message that is not a frame of an answer: `heartbeat`, `pong`, `refused`."""


class ChannelStream(Wire):
    """The wire of one stream. The channel's sender sends its frames, and watches the connection
    for all streams."""

    is_watched: ClassVar[bool] = False
    __slots__ = (
        "_channel",
        "_credit",
        "_credit_timeout_s",
        "_direct",
        "_epoch",
        "_granted",
        "_has_begun",
        "_left",
        "_on_credit_timeout",
        "_on_last_frame",
        "_sender",
        "_tag",
        "_unsent",
        "answer_id",
        "drop_reason",
        "stream_id",
        "task",
    )

    def __init__(
        self,
        channel: Channel,
        sender: FrameSender,
        stream_id: str,
        credit: int | None,
        credit_timeout_s: float,
        on_credit_timeout: Callable[[ChannelStream], None],
        on_last_frame: Callable[[ChannelStream], None],
    ) -> None:
        """Calls `on_credit_timeout` if the client grants no credit for that long, and
        `on_last_frame` before it sends the last frame."""
        super().__init__(new_id(), channel.caller, channel.path, channel.peer)
        self.stream_id = stream_id
        self.answer_id: str | None = None
        """None until the answer has started, and for observers."""
        self.task: asyncio.Future[None] | None = None
        self.drop_reason: Rejection | None = None
        """Why the stream ended, if its own end frame does not say so."""
        self._channel = channel
        self._sender = sender
        self._credit = credit
        self._credit_timeout_s = credit_timeout_s
        self._on_credit_timeout = on_credit_timeout
        self._on_last_frame = on_last_frame
        self._tag = channel.tagger(stream_id)
        self._epoch = ""
        self._has_begun = False
        self._unsent: deque[bytes] = deque()
        """Frames that wait for credit. A sender that is cancelled leaves them to the next one."""
        self._granted: asyncio.Event | None = None
        """Set while it waits for credit."""
        self._left = asyncio.Event()
        self._direct: DirectText | None = None

    def encoder(self, dialect: Dialect, **identity: Any) -> Encoder | ProtoEncoder:
        self._epoch = identity.get("epoch", "")
        return self._channel.encoder(dialect, **identity)

    def post(self, frames: Sequence[bytes], is_last: bool = False) -> Awaitable[None] | None:
        return begin_wait(self._send_frames(frames, is_last))

    def text_poster(self, encoder: Encoder | ProtoEncoder) -> TextPoster:
        post_text = self._channel.stream_text_poster(self.stream_id, encoder)
        send = self._sender.send

        def post(text: str, index: int, kind: str) -> Awaitable[None] | None:
            if not self._has_begun or self._unsent or self._left.is_set() or self._credit == 0:
                return self.post((encoder.text(text, index, kind),))
            if self._credit is not None:
                self._credit -= 1
            return send(post_text, text, index, kind)

        return post

    def direct_text(
        self, encoder: Encoder | ProtoEncoder, most_texts: int, most_bytes: int
    ) -> DirectText | None:
        if not self._has_begun or self._left.is_set() or self._credit is not None:
            return None
        limits = (most_texts, most_bytes)
        self._direct = self._channel.stream_direct_text(self.stream_id, encoder, *limits)
        return self._direct

    def wait_for_room(self) -> Awaitable[None] | None:
        rest = self._channel.wait_for_room()
        return None if rest is None else self._sender.wait_for(rest)

    def encode_stored(self, frame: bytes, event_id: str) -> bytes:
        return self._channel.encode_stored(frame, event_id)

    def hold(self, headers: Mapping[str, str], start: bytes) -> None:
        self._unsent.append(start)

    @property
    def has_begun(self) -> bool:
        return self._has_begun

    async def until_left(self) -> None:
        await self._left.wait()

    def bind(self, id: str) -> None:
        super().bind(id)
        self.answer_id = id

    def hurry(self) -> None:
        self._credit = None
        if self._granted is not None:
            self._granted.set()

    def leave(self) -> None:
        """The client no longer reads this stream; other streams of the channel continue."""
        self._left.set()
        if self._direct is not None:
            self._direct.drop()
        self.hurry()

    def grant(self, frames: int) -> None:
        if self._credit is not None:
            self._credit += frames
            if self._granted is not None:
                self._granted.set()

    async def _send_frames(self, frames: Sequence[bytes], is_last: bool) -> None:
        unsent = self._unsent
        unsent.extend(frames)
        if is_last:
            self._on_last_frame(self)
        while unsent:
            if not unsent[0]:
                unsent.popleft()
                continue
            epoch = ""
            if not self._has_begun:
                self._has_begun, epoch = True, self._epoch
            elif self._credit is not None and not is_last:
                await self._wait_for_credit()
            if self._left.is_set():
                return
            await self._sender.deliver(self._tag(unsent.popleft(), epoch))

    async def _wait_for_credit(self) -> None:
        """Returns when one more frame may be sent."""
        if self._credit == 0:
            self._granted = asyncio.Event()
            loop = asyncio.get_running_loop()
            timer = loop.call_later(self._credit_timeout_s, self._on_credit_timeout, self)
            try:
                await self._granted.wait()
            finally:
                timer.cancel()
                self._granted = None
        if self._credit is not None:
            self._credit -= 1
