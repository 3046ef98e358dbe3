"""The channel over a WebSocket: each frame and each control message is one JSON text."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from torvyn.concurrency.begin_wait import begin_wait
from torvyn.protocol.encoder import Dialect, Encoder, to_json
from torvyn.transport.http.asgi_exchange import AsgiExchange, Message
from torvyn.transport.multiplex.channel import Channel

PATH: Final = "/v1/ws"


class SocketChannel(Channel):
    __slots__ = ("_exchange", "_protocol", "_waiters")

    def __init__(self, exchange: AsgiExchange, protocol: str | None) -> None:
        super().__init__(exchange.id, exchange.caller, PATH, exchange.peer)
        self._exchange = exchange
        self._protocol = protocol
        self._waiters: dict[asyncio.Future[None], asyncio.Future[None]] = {}
        """The senders that wait, each with the send that it waits for."""

    async def _send_message(self, message: Message) -> None:
        sent = asyncio.ensure_future(self._exchange.send(message))
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

    def encoder(self, dialect: Dialect, **identity: Any) -> Encoder:
        return Encoder(dialect, "json", **identity)

    def post(self, frames: Sequence[bytes], is_last: bool = False) -> Awaitable[None] | None:
        message = {"type": "websocket.send", "text": frames[0].decode()}
        return begin_wait(self._send_message(message))

    def encode_stored(self, frame: bytes, event_id: str) -> bytes:
        return frame

    def tagger(self, stream_id: str) -> Callable[[bytes, str], bytes]:
        prefix = b'{"stream_id":%s,' % to_json(stream_id).encode()

        def tag(frame: bytes, epoch: str) -> bytes:
            if epoch:
                frame = b'%s,"epoch":%s}' % (frame[:-1], to_json(epoch).encode())
            return prefix + frame[1:]

        return tag

    def control_message(self, kind: str, stream_id: str | None = None, **fields: Any) -> bytes:
        stream = {} if stream_id is None else {"stream_id": stream_id}
        return to_json({"type": kind, **stream, **fields}).encode()

    async def begin(self, headers: Mapping[str, str]) -> None:
        await self._exchange.send({"type": "websocket.accept", "subprotocol": self._protocol})

    async def until_left(self) -> None:
        await self._exchange.until_left()


def _settle(waiter: asyncio.Future[None], sent: asyncio.Future[None]) -> None:
    """Passes the outcome of a send to its sender, if the sender still waits."""
    error = None if sent.cancelled() else sent.exception()
    if waiter.done():
        return
    if error is not None:
        waiter.set_exception(error)
    else:
        waiter.set_result(None)
