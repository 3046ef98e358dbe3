"""A channel: one connection that many streams share, over a WebSocket or a gRPC session.

The channel passes each message of the server to its stream. A stream buffers no more frames than it
has granted as credit, so a slow reader delays only itself. A control message is followed by a ping:
if the server rejects it, the rejection arrives before the pong.
"""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from torvyn.client.failures import ServerError
from torvyn.client.transports.transport import ConnectionLost
from torvyn.errors import TorvynError
from torvyn.protocol.frames import EndFrame, Frame, HeartbeatFrame, StartFrame

CREDIT: Final = 256
"""How many frames a stream may be ahead of its reader."""
_ENDING_REJECTIONS: Final = ("transport.credit-withheld", "transport.stream-left")
"""Rejections that end a running stream; others answer a control message."""


@dataclass(frozen=True, slots=True)
class ServerMessage:
    """A message from the server: a frame, a rejection or a pong."""

    kind: Literal["frame", "refused", "pong", "other"]
    stream_id: str | None = None
    frame: Frame | None = None
    epoch: str | None = None
    rejection: ServerError | None = None


class ChannelConnection(ABC):
    """A WebSocket or a gRPC session."""

    @abstractmethod
    async def send(self, record: dict[str, Any]) -> None:
        """Raises `ConnectionLost`."""

    @abstractmethod
    async def receive(self) -> ServerMessage:
        """Raises `ConnectionLost` at the end, or the server's rejection of the connection."""

    @abstractmethod
    async def aclose(self) -> None: ...


class ChannelStream:
    """One stream of a channel: the `FrameReader` of this transport."""

    def __init__(
        self, channel: Channel, stream_id: str, *, is_stateful: bool, is_new: bool
    ) -> None:
        self.stream_id = stream_id
        self.id: str | None = None
        self.epoch: str | None = None
        self._channel = channel
        self._is_stateful = is_stateful
        self._is_new = is_new
        """It starts an answer; it does not come back to one."""
        self._frames: deque[Frame] = deque()
        self._changed = asyncio.Event()
        self._failure: ConnectionLost | TorvynError | None = None
        self._ungranted = 0
        self.is_closed = False
        self.is_over = False

    async def wait_for_frame(self) -> None:
        """Waits until a frame can be read; raises if none will arrive."""
        while not self._frames:
            if self._failure is not None:
                raise self._failure
            self._changed.clear()
            await self._changed.wait()

    async def read(self) -> Sequence[Frame]:
        await self.wait_for_frame()
        frames = list(self._frames)
        self._frames.clear()
        await self._grant(sum(not isinstance(frame, HeartbeatFrame) for frame in frames))
        return frames

    def close(self) -> None:
        if self.is_closed:
            return
        self.is_closed = True
        self._frames.clear()
        self.fail(ConnectionLost("the stream was closed"))
        # Nobody can come back to an answer that has no id yet, and the connection stays open.
        is_kept = self._is_stateful and not (self._is_new and self.id is None)
        if not self.is_over and not is_kept:
            self._channel.notify({"type": "cancel", "stream_id": self.stream_id})

    def put(self, frame: Frame) -> None:
        if isinstance(frame, EndFrame):
            self.is_over = True
        # A heartbeat behind another frame says nothing new.
        if isinstance(frame, HeartbeatFrame) and self._frames:
            return
        if not self.is_closed:
            self._frames.append(frame)
            self._changed.set()

    def fail(self, failure: ConnectionLost | TorvynError) -> None:
        """Raised to the reader after the frames that have arrived."""
        self._failure = self._failure or failure
        self._changed.set()

    async def _grant(self, count: int) -> None:
        self._ungranted += count
        if self._ungranted >= CREDIT // 2 and not self.is_over:
            granted, self._ungranted = self._ungranted, 0
            record = {"type": "credit", "stream_id": self.stream_id, "frames": granted}
            with contextlib.suppress(ConnectionLost):  # the next read raises it
                await self._channel.send(record)


class Channel:
    def __init__(self, connection: ChannelConnection, idle_timeout_s: float) -> None:
        self._connection = connection
        self._idle_s = idle_timeout_s
        self._streams: dict[str, ChannelStream] = {}
        self._replies: deque[_ControlReply] = deque()
        self._send_lock = asyncio.Lock()
        self._count = 0
        self._notifications: set[asyncio.Future[None]] = set()
        self._loop = asyncio.get_running_loop()
        self._last_message_s = self._loop.time()
        self.is_over = False
        self._reader = asyncio.ensure_future(self._read())
        self._idle_timer = self._loop.call_later(idle_timeout_s, self._check_idle)

    @property
    def load(self) -> int:
        """How many streams are running."""
        return len(self._streams)

    def new_stream(self, *, is_stateful: bool, is_new: bool) -> ChannelStream:
        self._count += 1
        stream = ChannelStream(self, f"s{self._count}", is_stateful=is_stateful, is_new=is_new)
        self._streams[stream.stream_id] = stream
        return stream

    def find(self, id: str) -> ChannelStream | None:
        """The running stream with that id."""
        return next((s for s in self._streams.values() if s.id == id and not s.is_over), None)

    async def send(self, *records: dict[str, Any], reply: _ControlReply | None = None) -> None:
        """Sends the records without another in between. Cancelling the caller does not interrupt
        it: half a message would end the connection for all streams."""
        await asyncio.shield(asyncio.ensure_future(self._send(records, reply)))

    async def _send(self, records: Sequence[dict[str, Any]], reply: _ControlReply | None) -> None:
        async with self._send_lock:
            if self.is_over:
                raise ConnectionLost("the connection ended")
            if reply is not None:
                self._replies.append(reply)
            for record in records:
                await self._connection.send(record)

    def notify(self, record: dict[str, Any]) -> None:
        """Sends a record without waiting; it is dropped if the connection is lost."""
        self._notifications.add(task := asyncio.ensure_future(self._notify(record)))
        task.add_done_callback(self._notifications.discard)

    async def control(self, record: dict[str, Any]) -> ServerError | None:
        """Sends a control message; returns the server's rejection, or None."""
        reply = _ControlReply(record["stream_id"], self._loop.create_future())
        await self.send(record, {"type": "ping"}, reply=reply)
        async with asyncio.timeout(self._idle_s):
            return await reply.future

    def _check_idle(self) -> None:
        """Ends the channel if nothing arrives for too long. The timeout is per connection: a quiet
        stream does not count as lost while another one receives frames."""
        left_s = self._last_message_s + self._idle_s - self._loop.time()
        if left_s > 0:
            self._idle_timer = self._loop.call_later(left_s, self._check_idle)
        else:
            self._end(
                ConnectionLost(f"nothing arrived for {self._idle_s:g} s, not even a heartbeat")
            )
            self._reader.cancel()

    async def aclose(self) -> None:
        if self._notifications:
            await asyncio.wait(self._notifications, timeout=1.0)
        self._end(ConnectionLost("the client was closed"))
        self._reader.cancel()
        await asyncio.wait({self._reader})

    async def _notify(self, record: dict[str, Any]) -> None:
        with contextlib.suppress(ConnectionLost):
            await self.send(record)

    async def _read(self) -> None:
        try:
            while True:
                message = await self._connection.receive()
                self._last_message_s = self._loop.time()
                self._dispatch(message)
        except (ConnectionLost, TorvynError) as error:
            self._end(error)
        finally:
            await self._connection.aclose()

    def _dispatch(self, message: ServerMessage) -> None:
        stream = self._streams.get(message.stream_id or "")
        if message.kind == "pong" and self._replies:
            self._replies.popleft().give()
        elif isinstance(message.frame, HeartbeatFrame):
            for each in self._streams.values():
                each.put(message.frame)
        elif stream is not None and message.frame is not None:
            if isinstance(message.frame, StartFrame):
                stream.id, stream.epoch = message.frame.id, message.epoch
            stream.put(message.frame)
            self._forget(stream)
        elif message.rejection is not None:
            self._reject(message.rejection, message.stream_id, stream)

    def _reject(
        self, rejection: ServerError, stream_id: str | None, stream: ChannelStream | None
    ) -> None:
        is_control = stream is None or (
            stream.id is not None and rejection.code not in _ENDING_REJECTIONS
        )
        reply = next((one for one in self._replies if one.stream_id == stream_id), None)
        if is_control and reply is not None:
            reply.rejection = rejection
        elif stream is not None and not is_control:
            # A stream that was too slow may be resumed; one that never started may not.
            has_started = stream.id is not None
            stream.is_over = True
            stream.fail(ConnectionLost(rejection.message) if has_started else rejection)
            self._forget(stream)

    def _forget(self, stream: ChannelStream) -> None:
        if stream.is_over:
            self._streams.pop(stream.stream_id, None)

    def _end(self, why: ConnectionLost | TorvynError) -> None:
        self.is_over = True
        self._idle_timer.cancel()
        for stream in self._streams.values():
            stream.fail(why)
        self._streams.clear()
        while self._replies:
            self._replies.popleft().fail(why)


class _ControlReply:
    """The server's reply to a control message."""

    def __init__(self, stream_id: str, future: asyncio.Future[ServerError | None]) -> None:
        self.stream_id = stream_id
        self.future = future
        self.rejection: ServerError | None = None

    def give(self) -> None:
        if not self.future.done():
            self.future.set_result(self.rejection)

    def fail(self, why: Exception) -> None:
        if not self.future.done():
            self.future.set_exception(why)
