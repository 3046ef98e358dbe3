"""Wires of gRPC: the answer to a call, and the channel of a session.

One message a frame, serialized once. gRPC takes one message of a call at a time, and keeps the one
that it was given, whatever becomes of who gave it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import grpc

from torvyn.protocol.encoder import Dialect
from torvyn.protocol.openai.surrogate_pairs import encodable
from torvyn.protocol.proto_encoder import Led, ProtoEncoder, messages, respelled
from torvyn.transport.access.caller import Caller
from torvyn.transport.multiplex.channel import Channel
from torvyn.transport.wire import Wire
from torvyn.v1 import inference_pb2 as pb


class CallWriter:
    """One call, as its sender sees it."""

    def __init__(self, context: Any, head: tuple[tuple[str, str], ...]) -> None:
        self._context = context
        self._head = head
        self._left = asyncio.Event()
        self._turn = asyncio.Lock()
        self._sending: asyncio.Task[None] | None = None
        self.has_begun = False

    @property
    def is_left(self) -> bool:
        return self._left.is_set()

    @property
    def is_stuck(self) -> bool:
        """A message is on its way."""
        return self._turn.locked()

    async def until_left(self) -> None:
        await self._left.wait()

    def leave(self) -> None:
        """The client has gone."""
        self._left.set()

    def let_go(self) -> None:
        """Nobody is there: who waits for a message to be taken waits no longer."""
        self.leave()
        if self._sending is not None:
            self._sending.cancel()

    async def begin(self) -> None:
        self.has_begun = True
        try:
            await self._context.send_initial_metadata(self._head)
        except grpc.aio.BaseError:
            self.leave()

    async def write(self, packed: Sequence[bytes]) -> None:
        """When who sends is cancelled, what was given to gRPC goes its way: an answer that is
        stopped is one whose sender is cancelled, and there is more to send."""
        await asyncio.shield(asyncio.ensure_future(self._send(packed)))

    async def _send(self, packed: Sequence[bytes]) -> None:
        async with self._turn:
            if self.is_left:
                raise _over()
            self._sending = asyncio.current_task()
            try:
                for message in packed:
                    await self._context.write(message)
            except grpc.aio.BaseError as error:
                raise _over() from error
            except asyncio.CancelledError:
                if not self.is_left:
                    raise
                raise _over() from None
            finally:
                self._sending = None


def _over() -> ConnectionResetError:
    return ConnectionResetError("the call is over")


class GrpcWire(Wire):
    """The answer to a call."""

    __slots__ = ("_line", "has_ended", "summary")

    def __init__(self, line: CallWriter, request_id: str, caller: Caller, **where: Any) -> None:
        super().__init__(request_id, caller, line.write, **where)
        self._line = line
        self.summary: Mapping[str, Any] = {}
        """Of its answer, for the record of the call."""
        self.has_ended = False
        """The last frame was sent, or is about to be."""

    def encoder(self, dialect: Dialect, **identity: Any) -> ProtoEncoder:
        return ProtoEncoder(**identity)

    def pack(self, frames: Sequence[bytes], is_last: bool = False) -> list[bytes]:
        self.has_ended = is_last
        return list(messages(frames))

    def spell(self, frame: bytes, event_id: str) -> bytes:
        return respelled(frame, event_id.rpartition("-")[0])

    async def begin(self, headers: Mapping[str, str]) -> None:
        await self._line.begin()

    async def until_left(self) -> None:
        await self._line.until_left()

    def keep(self, summary: Mapping[str, Any]) -> bool:
        self.summary = summary
        return True


class GrpcChannel(Channel):
    """A call that carries many streams."""

    __slots__ = ("_line",)

    def __init__(self, line: CallWriter, request_id: str, caller: Caller, **where: Any) -> None:
        super().__init__(request_id, caller, line.write, **where)
        self._line = line

    def encoder(self, dialect: Dialect, **identity: Any) -> ProtoEncoder:
        return ProtoEncoder(**identity)

    def pack(self, frames: Sequence[bytes], is_last: bool = False) -> list[bytes]:
        return list(messages(frames))

    def spell(self, frame: bytes, event_id: str) -> bytes:
        return respelled(frame, event_id.rpartition("-")[0])

    def tag(self, stream_id: str) -> Callable[[bytes, str], bytes]:
        # The name is the first field of the message and the frame the second, so that a frame
        # that is serialized already need not be read again.
        name = pb.ServerMessage(stream_id=encodable(stream_id)).SerializeToString()

        def tagged(frame: bytes, epoch: str = "") -> bytes:
            data = b"%s\x12%s%s" % (name, _varint(len(frame)), frame)
            if isinstance(frame, Led):
                return Led.of(data, tuple(tagged(before) for before in frame.before))
            return data if frame else b""

        return tagged

    def note(self, kind: str, stream_id: str | None = None, **said: Any) -> bytes:
        message = pb.ServerMessage(stream_id=encodable(stream_id or ""))
        if kind == "heartbeat":
            message.frame.heartbeat.SetInParent()
        elif kind == "pong":
            message.pong.SetInParent()
        else:
            for name, value in said.items():
                setattr(
                    message.refused, name, encodable(value) if isinstance(value, str) else value
                )
        data: bytes = message.SerializeToString()
        return data

    def let_go(self) -> None:
        self._line.let_go()

    async def begin(self, headers: Mapping[str, str]) -> None:
        await self._line.begin()

    async def until_left(self) -> None:
        await self._line.until_left()


def _varint(number: int) -> bytes:
    """As protobuf writes the length of a field."""
    data = bytearray()
    while number > 0x7F:
        data.append(number & 0x7F | 0x80)
        number >>= 7
    data.append(number)
    return bytes(data)
