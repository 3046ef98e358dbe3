"""The wires of gRPC: the answer to a call, and the channel of a session. One message per frame,
serialized once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from torvyn.protocol.encoder import Dialect, Encoder
from torvyn.protocol.openai.surrogate_pairs import encodable
from torvyn.protocol.proto_encoder import PrefixedFrame, ProtoEncoder, message_from_json, messages
from torvyn.transport.http.exchange import TextPoster
from torvyn.transport.multiplex.channel import Channel
from torvyn.transport.wire import Wire
from torvyn.v1 import inference_pb2 as pb

if TYPE_CHECKING:
    from torvyn.engine.answer.direct_path import DirectText
    from torvyn.transport.grpc.exchange import GrpcExchange


class CallWire(Wire):
    """What every wire over a call does."""

    __slots__ = ("exchange",)

    def __init__(self, exchange: GrpcExchange) -> None:
        super().__init__(exchange.id, exchange.caller, exchange.path, exchange.peer)
        self.exchange = exchange

    def encoder(self, dialect: Dialect, **identity: Any) -> ProtoEncoder:
        return ProtoEncoder(**identity)

    def post(self, frames: Sequence[bytes], is_last: bool = False) -> Awaitable[None] | None:
        return self.exchange.post_messages(list(messages(frames)))

    def wait_for_room(self) -> Awaitable[None] | None:
        return self.exchange.wait_for_room()

    @property
    def idle_s(self) -> float | None:
        return self.exchange.idle_s

    def encode_stored(self, frame: bytes, event_id: str) -> bytes:
        return message_from_json(frame, event_id.rpartition("-")[0])

    async def until_left(self) -> None:
        await self.exchange.until_left()

    def when_left(self, act: Callable[[], None] | None) -> bool:
        return self.exchange.when_left(act)


class GrpcWire(CallWire):
    """The answer to a call."""

    __slots__ = ()

    def bind(self, id: str) -> None:
        super().bind(id)
        self.exchange.id = id

    def hold(self, headers: Mapping[str, str], start: bytes) -> None:
        # From here on the answer waits for `until_left`.
        self.exchange.is_watched = True
        self.exchange.hold_call(*messages((start,)))

    @property
    def has_begun(self) -> bool:
        return self.exchange.has_begun

    def post(self, frames: Sequence[bytes], is_last: bool = False) -> Awaitable[None] | None:
        self.exchange.has_last_frame = is_last
        return super().post(frames)

    def text_poster(self, encoder: Encoder | ProtoEncoder) -> TextPoster:
        assert isinstance(encoder, ProtoEncoder)
        return self.exchange.message_text_poster(encoder)

    def direct_text(
        self, encoder: Encoder | ProtoEncoder, most_texts: int, most_bytes: int
    ) -> DirectText:
        assert isinstance(encoder, ProtoEncoder)
        return self.exchange.direct_text(encoder, most_texts, most_bytes)

    def keep(self, summary: Mapping[str, Any]) -> bool:
        self.exchange.summary = summary
        return True


class GrpcChannel(CallWire, Channel):
    """A call that carries many streams."""

    __slots__ = ()

    async def open(self) -> None:
        self.exchange.begin_call()

    def tagger(self, stream_id: str) -> Callable[[bytes, str], bytes]:
        prefix = _prefix(stream_id)

        def tag(frame: bytes, epoch: str = "") -> bytes:
            data = b"%s%s%s" % (prefix, _varint(len(frame)), frame)
            if isinstance(frame, PrefixedFrame):
                return PrefixedFrame.of(data, tuple(tag(before) for before in frame.before))
            return data if frame else b""

        return tag

    def stream_direct_text(
        self, stream_id: str, encoder: Encoder | ProtoEncoder, most_texts: int, most_bytes: int
    ) -> DirectText:
        assert isinstance(encoder, ProtoEncoder)
        return self.exchange.direct_text(encoder, most_texts, most_bytes, _prefix(stream_id))

    def control_message(self, kind: str, stream_id: str | None = None, **fields: Any) -> bytes:
        message = pb.ServerMessage(stream_id=encodable(stream_id or ""))
        if kind == "heartbeat":
            message.frame.heartbeat.SetInParent()
        elif kind == "pong":
            message.pong.SetInParent()
        else:
            clean: dict[str, Any] = {
                name: encodable(value) if isinstance(value, str) else value
                for name, value in fields.items()
            }
            message.refused.MergeFrom(pb.Refused(**clean))
        data: bytes = message.SerializeToString()
        return data

    def abandon_sends(self) -> None:
        self.exchange.abandon_posts()


def _prefix(stream_id: str) -> bytes:
    """How a message with a frame of that stream begins. The id is its first field and the frame the
    second, so the length of the frame and the serialized frame follow."""
    named: bytes = pb.ServerMessage(stream_id=encodable(stream_id)).SerializeToString()
    return named + b"\x12"


def _varint(number: int) -> bytes:
    """The length of a field in protobuf's encoding."""
    data = bytearray()
    while number > 0x7F:
        data.append(number & 0x7F | 0x80)
        number >>= 7
    data.append(number)
    return bytes(data)
