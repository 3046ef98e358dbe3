"""Wires: where the frames of one answer go, and whether anybody is still there.

A wire knows how its transport spells frames and how it sends; when to send, and what, is the
business of others. `pack` and `send` are apart so that a chunk costs no coroutine of ours.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

from torvyn.protocol.encoder import Dialect, Encoder, Framing
from torvyn.transport.access.caller import Caller
from torvyn.transport.http.exchange import HttpExchange

if TYPE_CHECKING:
    from torvyn.protocol.proto_encoder import ProtoEncoder

STREAMED: Final = {"cache-control": "no-cache, no-transform", "x-accel-buffering": "no"}
KINDS: Final[dict[Framing, str]] = {
    "sse": "text/event-stream; charset=utf-8",
    "lines": "application/x-ndjson",
}
_BODY: Final = "http.response.body"


class Wire(ABC):
    """One answer's way out. `send` waits while the other side is slow, and raises `OSError` when
    it is gone."""

    __slots__ = ("caller", "path", "peer", "request_id", "send")

    is_watched: ClassVar[bool] = True
    """Somebody waits at its other end: for heartbeats, and not for ever."""

    def __init__(
        self,
        request_id: str,
        caller: Caller,
        send: Callable[[Any], Awaitable[None]],
        path: str = "",
        peer: str | None = None,
    ) -> None:
        self.request_id = request_id
        self.caller = caller
        self.send = send
        self.path = path
        """Where it was asked, as a route."""
        self.peer = peer
        """The address of the client, as far as that is known."""

    @abstractmethod
    def encoder(self, dialect: Dialect, **identity: Any) -> Encoder | ProtoEncoder:
        """What spells the frames."""

    @abstractmethod
    def pack(self, frames: Sequence[bytes], is_last: bool = False) -> Any:
        """What `send` takes: these frames, together."""

    @abstractmethod
    def spell(self, frame: bytes, event_id: str) -> bytes:
        """A frame of our dialect, kept as one JSON object, as it is spelled here. Without an event
        id it has no place in the answer: no reader goes on after it."""

    @abstractmethod
    async def begin(self, headers: Mapping[str, str]) -> None:
        """Before the first frame."""

    @abstractmethod
    async def until_left(self) -> None:
        """Returns when nobody is there any more."""

    def bind(self, id: str) -> None:
        """Which answer goes over it."""
        return

    def hurry(self) -> None:
        """The answer is about to end: what is left of it waits for nobody's leave."""
        return

    def keep(self, summary: Mapping[str, Any]) -> bool:
        """Keeps the summary of its answer for the record of the request. False: the wire is one of
        many of a request, and each answer has a record of its own."""
        return False


class HttpWire(Wire):
    """The answer to an HTTP request, as an event stream or as lines."""

    __slots__ = ("exchange", "framing")

    def __init__(self, exchange: HttpExchange, framing: Framing = "sse") -> None:
        super().__init__(exchange.id, exchange.caller, exchange.send, exchange.path, exchange.peer)
        self.exchange = exchange
        self.framing = framing

    def encoder(self, dialect: Dialect, **identity: Any) -> Encoder:
        return Encoder(dialect, self.framing, **identity)

    def pack(self, frames: Sequence[bytes], is_last: bool = False) -> Any:
        data = frames[0] if len(frames) == 1 else b"".join(frames)
        return {"type": _BODY, "body": data, "more_body": not is_last}

    def spell(self, frame: bytes, event_id: str) -> bytes:
        if self.framing == "lines":
            return frame + b"\n"
        named = b"id: %s\n" % event_id.encode() if event_id else b""
        return b"%sdata: %s\n\n" % (named, frame)

    async def begin(self, headers: Mapping[str, str]) -> None:
        kind = {"content-type": KINDS[self.framing]}
        await self.exchange.begin(200, {**kind, **STREAMED, **headers})

    async def until_left(self) -> None:
        await self.exchange.until_left()

    def keep(self, summary: Mapping[str, Any]) -> bool:
        self.exchange.summary = summary
        return True
