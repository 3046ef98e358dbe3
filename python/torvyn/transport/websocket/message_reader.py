"""Reads a client's messages from a WebSocket, and passes them to the multiplexer.

The server below has no limit for the size of a message, so the size is checked here, after the
message has arrived.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from torvyn.transport.http.asgi_exchange import Receive
from torvyn.transport.http.json_body import parse_object
from torvyn.transport.rejection import Rejection

if TYPE_CHECKING:
    from torvyn.transport.multiplex.multiplexer import Multiplexer

TOO_BIG: Final = 1009
FAILED: Final = 1011


class MessageReader:
    def __init__(self, multiplexer: Multiplexer, receive: Receive, limit_bytes: int) -> None:
        self.close_code: int | None = None
        """How to close the socket; None: the client has disconnected."""
        self._multiplexer = multiplexer
        self._receive = receive
        self._limit_bytes = limit_bytes

    async def run(self) -> None:
        """Returns when the client disconnects or sends a message that is too large."""
        try:
            await self._read()
        except Exception:
            self.close_code = FAILED
            raise

    async def _read(self) -> None:
        while True:
            message = await self._receive()
            if message["type"] != "websocket.receive":
                return
            text = message.get("text")
            if _size(text if text is not None else message.get("bytes")) > self._limit_bytes:
                self.close_code = TOO_BIG
                return
            await self._handle(text)

    async def _handle(self, text: str | None) -> None:
        try:
            if text is None:
                message = "a message must be text, not binary data"
                raise Rejection(400, "transport.message-invalid", message)
            record = parse_object(text.encode(), "message")
        except Rejection as rejection:
            await self._multiplexer.reject(rejection)
        else:
            await self._multiplexer.handle(record)


def _size(data: str | bytes | None) -> int:
    if isinstance(data, str) and not data.isascii():
        return len(data.encode(errors="replace"))
    return len(data or b"")
