"""The channel over a WebSocket: each frame and each control message is one JSON text."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from torvyn.protocol.encoder import Dialect, Encoder, to_json
from torvyn.transport.http.exchange import TextPoster
from torvyn.transport.multiplex.channel import Channel

if TYPE_CHECKING:
    from torvyn.engine.answer.direct_path import DirectText
    from torvyn.protocol.proto_encoder import ProtoEncoder
    from torvyn.transport.websocket.socket import WebSocket

PATH: Final = "/v1/ws"


class SocketChannel(Channel):
    __slots__ = ("_protocol", "_socket")

    def __init__(self, socket: WebSocket[Any], protocol: str | None) -> None:
        exchange = socket.exchange
        super().__init__(exchange.id, exchange.caller, PATH, exchange.peer)
        self._socket = socket
        self._protocol = protocol

    def abandon_sends(self) -> None:
        self._socket.abandon_sends()

    def encoder(self, dialect: Dialect, **identity: Any) -> Encoder:
        return Encoder(dialect, "json", **identity)

    def post(self, frames: Sequence[bytes], is_last: bool = False) -> Awaitable[None] | None:
        return self._socket.post(frames[0])

    def encode_stored(self, frame: bytes, event_id: str) -> bytes:
        return frame

    def tagger(self, stream_id: str) -> Callable[[bytes, str], bytes]:
        opening = _opening(stream_id)

        def tag(frame: bytes, epoch: str) -> bytes:
            if epoch:
                frame = b'%s,"epoch":%s}' % (frame[:-1], to_json(epoch).encode())
            return opening + frame[1:]

        return tag

    def stream_text_poster(self, stream_id: str, encoder: Encoder | ProtoEncoder) -> TextPoster:
        assert isinstance(encoder, Encoder)
        return self._socket.text_poster(encoder, _opening(stream_id))

    def stream_direct_text(
        self, stream_id: str, encoder: Encoder | ProtoEncoder, most_texts: int, most_bytes: int
    ) -> DirectText | None:
        assert isinstance(encoder, Encoder)
        return self._socket.direct_text(encoder, _opening(stream_id), most_texts, most_bytes)

    def wait_for_room(self) -> Awaitable[None] | None:
        rest: Awaitable[None] | None = self._socket.exchange.wait_for_room()
        return rest

    @property
    def idle_s(self) -> float | None:
        idle_s: float | None = self._socket.exchange.idle_s
        return idle_s

    def control_message(self, kind: str, stream_id: str | None = None, **fields: Any) -> bytes:
        stream = {} if stream_id is None else {"stream_id": stream_id}
        return to_json({"type": kind, **stream, **fields}).encode()

    async def open(self) -> None:
        await self._socket.accept(self._protocol)

    async def until_left(self) -> None:
        await self._socket.exchange.until_left()


def _opening(stream_id: str) -> bytes:
    """How a frame of that stream begins."""
    return b'{"stream_id":%s,' % to_json(stream_id).encode()
