"""Wires: where the frames of one answer go, and whether the client is still connected.

A wire knows how its transport encodes and sends frames, not when. A chunk that need not wait needs
no coroutine.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import TYPE_CHECKING, Any, ClassVar, Final

from torvyn.protocol.encoder import Dialect, Encoder, Framing
from torvyn.transport.access.caller import Caller
from torvyn.transport.http.exchange import HttpExchange, TextPoster, UntilLeft

if TYPE_CHECKING:
    from torvyn.engine.answer.direct_path import DirectText
    from torvyn.protocol.proto_encoder import ProtoEncoder

STREAMED: Final = {"cache-control": "no-cache, no-transform", "x-accel-buffering": "no"}
KINDS: Final[dict[Framing, str]] = {
    "sse": "text/event-stream; charset=utf-8",
    "lines": "application/x-ndjson",
}


class Wire(ABC):
    """The connection of one answer."""

    __slots__ = ("caller", "path", "peer", "request_id")

    is_watched: ClassVar[bool] = True
    """A client reads it: it gets heartbeats and has a write timeout."""

    def __init__(
        self,
        request_id: str,
        caller: Caller,
        path: str = "",
        peer: str | None = None,
    ) -> None:
        self.request_id = request_id
        """The id of its answer; until there is one, the id of the request."""
        self.caller = caller
        self.path = path
        """The route of the request."""
        self.peer = peer
        """The address of the client, if known."""

    @abstractmethod
    def encoder(self, dialect: Dialect, **identity: Any) -> Encoder | ProtoEncoder:
        """The encoder for its frames."""

    @abstractmethod
    def post(self, frames: Sequence[bytes], is_last: bool = False) -> Awaitable[None] | None:
        """Sends the frames; returns what remains to wait for, if anything, while the client is
        slow. Either raises `OSError` when the client has left."""

    @abstractmethod
    def encode_stored(self, frame: bytes, event_id: str) -> bytes:
        """Encodes a stored frame, one JSON object of our dialect, for this transport. A frame
        without an event id is not part of the answer: a client cannot resume after it."""

    @abstractmethod
    def hold(self, headers: Mapping[str, str], start: bytes) -> None:
        """Takes the head and the start frame. They leave with what is posted next; until then, the
        client can still get an error with a status instead."""

    @property
    def has_begun(self) -> bool:
        """Whether the client may have got something."""
        return True

    def stopping(self, kind: str) -> None:
        """A client has stopped the answer (`stop`) or cancelled it (`cancel`)."""
        return

    @abstractmethod
    async def until_left(self) -> None:
        """Returns when the client has left."""

    def when_left(self, act: Callable[[], None] | None) -> bool:
        """Calls it when the client has left, without a task that waits; False: the transport cannot
        tell it so."""
        return False

    def while_waiting(self) -> AbstractAsyncContextManager[None]:
        """For what waits before the answer exists: it ends when the client leaves. The other
        transports cancel the task of such a client."""
        return nullcontext()

    def abort_after(self, seconds: float) -> None:
        """The last frame was posted: what the client has not read by then is dropped."""
        return

    def text_poster(self, encoder: Encoder | ProtoEncoder) -> TextPoster:
        """A function that encodes new text and posts it, for the answer of that encoder."""
        return lambda text, index, kind: self.post((encoder.text(text, index, kind),))

    def direct_text(
        self, encoder: Encoder | ProtoEncoder, most_texts: int, most_bytes: int
    ) -> DirectText | None:
        """The way of new text to the client in native code, where the transport has one. Texts are
        sent together up to those limits."""
        return None

    def wait_for_room(self) -> Awaitable[None] | None:
        """What remains to wait for after text that was sent in native code, if anything."""
        return None

    @property
    def idle_s(self) -> float | None:
        """Seconds since something was sent, where the transport knows."""
        return None

    def when_half_closed(self, act: Callable[[], None] | None) -> None:
        """Calls it when the client sends no more, where the transport tells."""
        return

    def bind(self, id: str) -> None:
        """Sets the id of the answer, before its head is sent."""
        self.request_id = id

    def hurry(self) -> None:
        """The answer is about to end: send the rest without waiting for credit."""
        return

    def keep(self, summary: Mapping[str, Any]) -> bool:
        """Keeps the summary of the answer for the log record of its request. False: the request has
        many wires, and each answer gets its own record."""
        return False


class HttpWire(Wire):
    """The response to an HTTP request, as an event stream or as lines."""

    __slots__ = ("exchange", "framing")

    def __init__(self, exchange: HttpExchange, framing: Framing = "sse") -> None:
        super().__init__(exchange.id, exchange.caller, exchange.path, exchange.peer)
        self.exchange = exchange
        self.framing = framing

    def encoder(self, dialect: Dialect, **identity: Any) -> Encoder:
        return Encoder(dialect, self.framing, **identity)

    def bind(self, id: str) -> None:
        super().bind(id)
        self.exchange.id = id

    def post(self, frames: Sequence[bytes], is_last: bool = False) -> Awaitable[None] | None:
        return self.exchange.post(frames[0] if len(frames) == 1 else b"".join(frames), is_last)

    def text_poster(self, encoder: Encoder | ProtoEncoder) -> TextPoster:
        assert isinstance(encoder, Encoder)
        return self.exchange.text_poster(encoder)

    def direct_text(
        self, encoder: Encoder | ProtoEncoder, most_texts: int, most_bytes: int
    ) -> DirectText | None:
        assert isinstance(encoder, Encoder)
        return self.exchange.direct_text(encoder, most_texts, most_bytes)

    def wait_for_room(self) -> Awaitable[None] | None:
        return self.exchange.wait_for_room()

    @property
    def idle_s(self) -> float | None:
        return self.exchange.idle_s

    def when_half_closed(self, act: Callable[[], None] | None) -> None:
        self.exchange.when_half_closed(act)

    def encode_stored(self, frame: bytes, event_id: str) -> bytes:
        if self.framing == "lines":
            return frame + b"\n"
        named = b"id: %s\n" % event_id.encode() if event_id else b""
        return b"%sdata: %s\n\n" % (named, frame)

    def hold(self, headers: Mapping[str, str], start: bytes) -> None:
        kind = {"content-type": KINDS[self.framing]}
        self.exchange.hold(200, {**kind, **STREAMED, **headers}, start)

    @property
    def has_begun(self) -> bool:
        return self.exchange.has_begun

    async def until_left(self) -> None:
        await self.exchange.until_left()

    def when_left(self, act: Callable[[], None] | None) -> bool:
        return self.exchange.when_left(act)

    def while_waiting(self) -> AbstractAsyncContextManager[None]:
        return UntilLeft(self.exchange)

    def abort_after(self, seconds: float) -> None:
        self.exchange.abort_after(seconds)

    def keep(self, summary: Mapping[str, Any]) -> bool:
        self.exchange.summary = summary
        return True
