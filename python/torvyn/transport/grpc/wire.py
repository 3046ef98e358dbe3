"""The wires of gRPC: the answer to a call, and the channel of a session.

One message per frame, serialized once. gRPC sends one message of a call at a time, and finishes
sending it even if the task that sends is cancelled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import grpc

from torvyn.concurrency.begin_wait import begin_wait
from torvyn.protocol.encoder import Dialect
from torvyn.protocol.openai.surrogate_pairs import encodable
from torvyn.protocol.proto_encoder import PrefixedFrame, ProtoEncoder, message_from_json, messages
from torvyn.transport.access.caller import Caller
from torvyn.transport.multiplex.channel import Channel
from torvyn.transport.wire import Wire
from torvyn.v1 import inference_pb2 as pb


class CallWriter:
    """Sends the messages of one call."""

    def __init__(self, context: Any, metadata: tuple[tuple[str, str], ...]) -> None:
        self._context = context
        self._metadata = metadata
        self._left = asyncio.Event()
        self._sending_lock = asyncio.Lock()
        self._sending: asyncio.Task[None] | None = None
        self.has_begun = False

    @property
    def is_left(self) -> bool:
        return self._left.is_set()

    @property
    def is_stuck(self) -> bool:
        """A message is being sent."""
        return self._sending_lock.locked()

    async def until_left(self) -> None:
        await self._left.wait()

    def leave(self) -> None:
        """The client has left."""
        self._left.set()

    def abandon_sends(self) -> None:
        """The client has left: ends the send that waits."""
        self.leave()
        if self._sending is not None:
            self._sending.cancel()

    async def begin(self) -> None:
        self.has_begun = True
        try:
            await self._context.send_initial_metadata(self._metadata)
        except grpc.aio.BaseError:
            self.leave()

    async def write(self, packed: Sequence[bytes]) -> None:
        """Finishes even if the caller is cancelled: stopping an answer cancels its sender but
        leaves more frames to send."""
        await asyncio.shield(asyncio.ensure_future(self._send(packed)))

    async def _send(self, packed: Sequence[bytes]) -> None:
        async with self._sending_lock:
            if self.is_left:
                raise _call_ended()
            self._sending = asyncio.current_task()
            try:
                for message in packed:
                    await self._context.write(message)
            except grpc.aio.BaseError as error:
                raise _call_ended() from error
            except asyncio.CancelledError:
                if not self.is_left:
                    raise
                raise _call_ended() from None
            finally:
                self._sending = None


def _call_ended() -> ConnectionResetError:
    return ConnectionResetError("the call has ended")


class GrpcWire(Wire):
    """The answer to a call."""

    __slots__ = ("_writer", "has_ended", "summary")

    def __init__(self, writer: CallWriter, request_id: str, caller: Caller, **context: Any) -> None:
        super().__init__(request_id, caller, **context)
        self._writer = writer
        self.summary: Mapping[str, Any] = {}
        """Of the answer, for the request log."""
        self.has_ended = False
        """The last frame was sent or is being sent."""

    def encoder(self, dialect: Dialect, **identity: Any) -> ProtoEncoder:
        return ProtoEncoder(**identity)

    def post(self, frames: Sequence[bytes], is_last: bool = False) -> Awaitable[None] | None:
        self.has_ended = is_last
        return begin_wait(self._writer.write(list(messages(frames))))

    def encode_stored(self, frame: bytes, event_id: str) -> bytes:
        return message_from_json(frame, event_id.rpartition("-")[0])

    async def begin(self, headers: Mapping[str, str]) -> None:
        await self._writer.begin()

    async def until_left(self) -> None:
        await self._writer.until_left()

    def keep(self, summary: Mapping[str, Any]) -> bool:
        self.summary = summary
        return True


class GrpcChannel(Channel):
    """A call that carries many streams."""

    __slots__ = ("_writer",)

    def __init__(self, writer: CallWriter, request_id: str, caller: Caller, **context: Any) -> None:
        super().__init__(request_id, caller, **context)
        self._writer = writer

    def encoder(self, dialect: Dialect, **identity: Any) -> ProtoEncoder:
        return ProtoEncoder(**identity)

    def post(self, frames: Sequence[bytes], is_last: bool = False) -> Awaitable[None] | None:
        return begin_wait(self._writer.write(list(messages(frames))))

    def encode_stored(self, frame: bytes, event_id: str) -> bytes:
        return message_from_json(frame, event_id.rpartition("-")[0])

    def tagger(self, stream_id: str) -> Callable[[bytes, str], bytes]:
        # The id is the first field of the message and the frame the second, so a serialized frame
        # is appended as it is.
        prefix = pb.ServerMessage(stream_id=encodable(stream_id)).SerializeToString()

        def tag(frame: bytes, epoch: str = "") -> bytes:
            data = b"%s\x12%s%s" % (prefix, _varint(len(frame)), frame)
            if isinstance(frame, PrefixedFrame):
                return PrefixedFrame.of(data, tuple(tag(before) for before in frame.before))
            return data if frame else b""

        return tag

    def control_message(self, kind: str, stream_id: str | None = None, **fields: Any) -> bytes:
        message = pb.ServerMessage(stream_id=encodable(stream_id or ""))
        if kind == "heartbeat":
            message.frame.heartbeat.SetInParent()
        elif kind == "pong":
            message.pong.SetInParent()
        else:
            for name, value in fields.items():
                setattr(
                    message.refused, name, encodable(value) if isinstance(value, str) else value
                )
        data: bytes = message.SerializeToString()
        return data

    def abandon_sends(self) -> None:
        self._writer.abandon_sends()

    async def begin(self, headers: Mapping[str, str]) -> None:
        await self._writer.begin()

    async def until_left(self) -> None:
        await self._writer.until_left()


def _varint(number: int) -> bytes:
    """The length of a field in protobuf's encoding."""
    data = bytearray()
    while number > 0x7F:
        data.append(number & 0x7F | 0x80)
        number >>= 7
    data.append(number)
    return bytes(data)
