"""Reads a client's messages from a WebSocket, and passes them to the multiplexer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from torvyn.transport.http.json_body import parse_object
from torvyn.transport.multiplex import client_message
from torvyn.transport.rejection import Rejection

if TYPE_CHECKING:
    from torvyn.transport.multiplex.multiplexer import Multiplexer
    from torvyn.transport.websocket.socket import WebSocket

_EXAMPLE: Final = client_message.example("start")
MALFORMED: Final = 1002
BAD_TEXT: Final = 1007
POLICY: Final = 1008
TOO_BIG: Final = 1009
FAILED: Final = 1011
CLOSES: Final = {
    "malformed": (MALFORMED, "the frame breaks the rules of the WebSocket protocol"),
    "bad-text": (BAD_TEXT, "the text is not UTF-8"),
    "too-large": (TOO_BIG, "the message is larger than `max_body` of `[serve]`"),
    "slow": (POLICY, "the message was not completed in time"),
}
"""The code and the reason to close a socket with, by the end of its messages. A client that has
left is told nothing."""


class MessageReader:
    def __init__(self, multiplexer: Multiplexer, socket: WebSocket[Any]) -> None:
        self.close: tuple[int, str] | None = None
        """The code and the reason to close the socket with; None: the client has left."""
        self._multiplexer = multiplexer
        self._socket = socket

    async def run(self) -> None:
        """Returns when the client disconnects or breaks a limit."""
        try:
            while await self._handle_next():
                pass
        except Exception:
            self.close = (FAILED, "the server failed; see its log")
            raise
        self.close = CLOSES.get(self._socket.end or "")

    async def _handle_next(self) -> bool:
        """False: no more come. A loop in one function would keep the last message while it waits
        for the next."""
        message = await self._socket.receive()
        if message is not None:
            await self._handle(message)
        return message is not None

    async def _handle(self, data: str | bytes) -> None:
        try:
            if isinstance(data, bytes):
                message = "a message must be text, not binary data"
                raise Rejection(400, "transport.message-invalid", message, hint=_EXAMPLE)
            record = parse_object(data.encode(), "message", _EXAMPLE)
        except Rejection as rejection:
            await self._multiplexer.reject(rejection)
        else:
            await self._multiplexer.handle(record)
