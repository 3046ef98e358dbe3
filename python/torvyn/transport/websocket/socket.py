"""One WebSocket, before and after its handshake, whatever server below carries it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from torvyn.transport.http.exchange import HttpExchange, TextPoster

if TYPE_CHECKING:
    from torvyn.engine.answer.direct_path import DirectText
    from torvyn.protocol.encoder import Encoder
    from torvyn.transport.http.native_exchange import MessagesEnd

Exchange = TypeVar("Exchange", bound=HttpExchange)


class WebSocket(ABC, Generic[Exchange]):
    __slots__ = ("exchange",)

    def __init__(self, exchange: Exchange) -> None:
        self.exchange = exchange
        """The handshake."""

    def offers(self, protocol: str) -> bool:
        """Whether the client speaks that subprotocol."""
        offered = self.exchange.headers.get("sec-websocket-protocol", "").split(",")
        return protocol in (one.strip() for one in offered)

    @abstractmethod
    async def check(self) -> None:
        """Raises a rejection if the handshake is malformed."""

    @abstractmethod
    async def deny(
        self, status: int, body: Mapping[str, Any], headers: Mapping[str, str], code: str
    ) -> None:
        """Answers the handshake with that status and body. Where the server below cannot do that,
        it closes the socket with the error code."""

    @abstractmethod
    async def accept(self, protocol: str | None) -> None:
        """Completes the handshake, with that subprotocol."""

    @abstractmethod
    async def receive(self) -> str | bytes | None:
        """The next message; None at their end."""

    @property
    @abstractmethod
    def end(self) -> MessagesEnd | None:
        """Why no more messages come, after `receive` has returned None."""

    @abstractmethod
    def post(self, text: bytes) -> Awaitable[None] | None:
        """Sends a text message; returns what remains to wait for, if anything. It completes even if
        its caller is cancelled. Either raises `OSError` when the client has left."""

    def text_poster(self, encoder: Encoder, opening: bytes) -> TextPoster:
        """A function that encodes new text and posts it. `opening` replaces the bracket with which
        a frame begins."""

        def post(text: str, index: int, kind: str) -> Awaitable[None] | None:
            frame = encoder.text(text, index, kind)
            return self.post(opening + frame[1:]) if frame else None

        return post

    def direct_text(
        self, encoder: Encoder, opening: bytes, most_texts: int, most_bytes: int
    ) -> DirectText | None:
        """`HttpExchange.direct_text`, with that opening."""
        return None

    @abstractmethod
    def abandon_sends(self) -> None:
        """The client has left: ends every `post` that waits."""

    @abstractmethod
    async def close(self, code: int, reason: str) -> None:
        """Closes it; returns after a short time even if the client reads nothing."""
