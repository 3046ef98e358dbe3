"""A WebSocket over the native wire, which frames the messages and answers pings."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Awaitable, Mapping
from typing import TYPE_CHECKING, Any, Final

from torvyn.transport.http.exchange import TextPoster
from torvyn.transport.http.native_exchange import MessagesEnd, NativeExchange
from torvyn.transport.rejection import Rejection
from torvyn.transport.websocket.socket import WebSocket

if TYPE_CHECKING:
    from torvyn.engine.answer.direct_path import DirectText
    from torvyn.protocol.encoder import Encoder

VERSION: Final = "13"
_KEY_BYTES: Final = 16
_GUID: Final = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
"""Of every WebSocket server (RFC 6455)."""


class NativeSocket(WebSocket[NativeExchange]):
    __slots__ = ()

    async def check(self) -> None:
        headers = self.exchange.headers
        if headers.get("sec-websocket-version") != VERSION:
            raise Rejection(
                426,
                "transport.upgrade-needed",
                "the version of the WebSocket protocol is not supported",
                hint=f"use version {VERSION}",
                headers={"sec-websocket-version": VERSION},
            )
        if not _is_key(headers.get("sec-websocket-key", "")):
            message = "`Sec-WebSocket-Key` is not a key: 16 bytes in base64"
            raise Rejection(400, "transport.request-invalid", message)

    async def deny(
        self, status: int, body: Mapping[str, Any], headers: Mapping[str, str], code: str
    ) -> None:
        await self.exchange.answer(body, status, headers=headers)

    async def accept(self, protocol: str | None) -> None:
        key = self.exchange.headers["sec-websocket-key"] + _GUID
        digest = hashlib.sha1(key.encode(), usedforsecurity=False).digest()
        chosen = {} if protocol is None else {"sec-websocket-protocol": protocol}
        upgrade = {"upgrade": "websocket", "connection": "upgrade"}
        accepted = {"sec-websocket-accept": base64.b64encode(digest).decode()}
        self.exchange.hold(101, {**upgrade, **accepted, **chosen})
        self.exchange.release_soon()

    async def receive(self) -> str | bytes | None:
        return await self.exchange.receive()

    @property
    def end(self) -> MessagesEnd | None:
        return self.exchange.messages_end

    def post(self, text: bytes) -> Awaitable[None] | None:
        return self.exchange.post(text)

    def text_poster(self, encoder: Encoder, opening: bytes) -> TextPoster:
        return self.exchange.text_poster(encoder, opening)

    def direct_text(
        self, encoder: Encoder, opening: bytes, most_texts: int, most_bytes: int
    ) -> DirectText:
        return self.exchange.direct_text(encoder, most_texts, most_bytes, opening)

    def abandon_sends(self) -> None:
        self.exchange.has_room()

    async def close(self, code: int, reason: str) -> None:
        self.exchange.close(code, reason)


def _is_key(key: str) -> bool:
    try:
        return len(base64.b64decode(key, validate=True)) == _KEY_BYTES
    except (binascii.Error, ValueError):
        return False
