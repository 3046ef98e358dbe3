"""A WebSocket over ASGI: the server below has done the handshake, and frames the messages."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Mapping
from typing import TYPE_CHECKING, Any, Final

from torvyn._io.event_loop import begin_wait
from torvyn.transport.http.asgi_exchange import AsgiExchange, Message, Receive, Scope, Send
from torvyn.transport.websocket.socket import WebSocket

if TYPE_CHECKING:
    from torvyn.transport.http.native_exchange import MessagesEnd

POLICY: Final = 1008
_DENIAL: Final = "websocket.http.response"
_CLOSE_TIMEOUT_S: Final = 1.0


class AsgiSocket(WebSocket[AsgiExchange]):
    """ASGI has no limit for the size of a message, so it is checked after the message has
    arrived."""

    __slots__ = ("_can_deny", "_end", "_limit_bytes", "_waiters")

    def __init__(self, scope: Scope, receive: Receive, send: Send, limit_bytes: int) -> None:
        super().__init__(AsgiExchange({**scope, "method": "GET"}, receive, send))
        self._can_deny = _DENIAL in (scope.get("extensions") or {})
        self._limit_bytes = limit_bytes
        self._end: MessagesEnd | None = None
        self._waiters: dict[asyncio.Future[None], asyncio.Future[None]] = {}
        """The senders that wait, each with the send that it waits for."""

    async def check(self) -> None:
        await self.exchange.receive()

    async def deny(
        self, status: int, body: Mapping[str, Any], headers: Mapping[str, str], code: str
    ) -> None:
        send = self.exchange.send
        if not self._can_deny:
            await send({"type": "websocket.close", "code": POLICY, "reason": code})
            return

        def send_denial(message: Message) -> Any:
            return send({**message, "type": f"websocket.{message['type']}"})

        self.exchange.send = send_denial
        await self.exchange.answer(body, status, headers=headers)

    async def accept(self, protocol: str | None) -> None:
        await self.exchange.send({"type": "websocket.accept", "subprotocol": protocol})

    async def receive(self) -> str | bytes | None:
        message = await self.exchange.receive()
        if message["type"] != "websocket.receive":
            self._end = "left"
            return None
        text = message.get("text")
        data: str | bytes = text if text is not None else message.get("bytes") or b""
        if _size(data) > self._limit_bytes:
            self._end = "too-large"
            return None
        return data

    @property
    def end(self) -> MessagesEnd | None:
        return self._end

    def post(self, text: bytes) -> Awaitable[None] | None:
        return begin_wait(self._send({"type": "websocket.send", "text": text.decode()}))

    async def _send(self, message: Message) -> None:
        sent = asyncio.ensure_future(self.exchange.send(message))
        waiter = asyncio.get_running_loop().create_future()
        sent.add_done_callback(lambda sent: _settle(waiter, sent))
        self._waiters[waiter] = sent
        try:
            await waiter
        finally:
            del self._waiters[waiter]

    def abandon_sends(self) -> None:
        for waiter, sent in self._waiters.items():
            if not waiter.done():
                waiter.set_result(None)
            sent.cancel()

    async def close(self, code: int, reason: str) -> None:
        message = {"type": "websocket.close", "code": code, "reason": reason}
        with contextlib.suppress(OSError):  # also when it takes too long
            await asyncio.wait_for(self.exchange.send(message), _CLOSE_TIMEOUT_S)


def _settle(waiter: asyncio.Future[None], sent: asyncio.Future[None]) -> None:
    """Passes the outcome of a send to its sender, if the sender still waits."""
    error = None if sent.cancelled() else sent.exception()
    if waiter.done():
        return
    if error is not None:
        waiter.set_exception(error)
    else:
        waiter.set_result(None)


def _size(data: str | bytes) -> int:
    if isinstance(data, str) and not data.isascii():
        return len(data.encode(errors="replace"))
    return len(data)
