"""WebSocket, `/v1/ws`: a conversation over one socket, each frame and each message a JSON text.

The gate and the key are asked before the socket is accepted, so that a page of another origin gets
a status and nothing else. The server below waits in `send` while a client does not read, so a slow
reader slows its engines here as it does over HTTP; it cannot be told how large a message may be, so
that is looked at here, when a message has arrived.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from torvyn.protocol.encoder import Dialect, Encoder, to_json
from torvyn.transport.http.exchange import HttpExchange, Message, Receive, Scope, Send, parsed
from torvyn.transport.multiplex.channel import Channel
from torvyn.transport.multiplex.multiplexer import Multiplexer
from torvyn.transport.rejection import Rejection, shutting_down, status_of, torvyn_error_body
from torvyn.transport.telemetry.request_log import log_request

if TYPE_CHECKING:
    from torvyn.transport.application import Application

logger = logging.getLogger("torvyn.transport")

PATH: Final = "/v1/ws"
PROTOCOL: Final = "torvyn.v1"
TOO_BIG: Final = 1009
FAILED: Final = 1011
GOING_AWAY: Final = 1001
POLICY: Final = 1008
_DENIAL: Final = "websocket.http.response"
_LAST_WORD_S: Final = 1.0
"""How long a client may take to hear that the socket is closed."""


class SocketChannel(Channel):
    """A socket that was accepted, or is about to be."""

    __slots__ = ("_exchange", "_protocol", "_waiting")

    def __init__(self, exchange: HttpExchange, protocol: str | None) -> None:
        super().__init__(exchange.id, exchange.caller, self._go_out, PATH, exchange.peer)
        self._exchange = exchange
        self._protocol = protocol
        self._waiting: dict[asyncio.Future[None], asyncio.Future[None]] = {}
        """What is on its way, by those who wait for it."""

    async def _go_out(self, message: Message) -> None:
        sent = asyncio.ensure_future(self._exchange.send(message))
        waiter = asyncio.get_running_loop().create_future()
        sent.add_done_callback(lambda sent: _settle(waiter, sent))
        self._waiting[waiter] = sent
        try:
            await waiter
        finally:
            del self._waiting[waiter]

    def let_go(self) -> None:
        for waiter, sent in self._waiting.items():
            if not waiter.done():
                waiter.set_result(None)
            sent.cancel()

    def encoder(self, dialect: Dialect, **identity: Any) -> Encoder:
        return Encoder(dialect, "json", **identity)

    def pack(self, frames: Sequence[bytes], is_last: bool = False) -> Message:
        return {"type": "websocket.send", "text": frames[0].decode()}

    def spell(self, frame: bytes, event_id: str) -> bytes:
        return frame

    def tag(self, stream_id: str) -> Callable[[bytes, str], bytes]:
        prefix = b'{"stream_id":%s,' % to_json(stream_id).encode()

        def tagged(frame: bytes, epoch: str) -> bytes:
            if epoch:
                frame = b'%s,"epoch":%s}' % (frame[:-1], to_json(epoch).encode())
            return prefix + frame[1:]

        return tagged

    def note(self, kind: str, stream_id: str | None = None, **said: Any) -> bytes:
        about = {} if stream_id is None else {"stream_id": stream_id}
        return to_json({"type": kind, **about, **said}).encode()

    async def begin(self, headers: Mapping[str, str]) -> None:
        await self._exchange.send({"type": "websocket.accept", "subprotocol": self._protocol})

    async def until_left(self) -> None:
        await self._exchange.until_left()


async def converse(app: Application, scope: Scope, receive: Receive, send: Send) -> None:
    """One socket, from its handshake to its end."""
    began_s = time.perf_counter()
    exchange = HttpExchange({**scope, "method": "GET"}, receive, send)
    await receive()
    try:
        await _enter(app, exchange)
    except Exception as error:
        await _deny(app, scope, exchange, error)
    else:
        exchange.status = 101
        await _held(app, exchange, scope.get("subprotocols") or ())
    app.meter.requests["GET", PATH, exchange.status] += 1
    log_request(
        "WEBSOCKET",
        PATH,
        exchange.status,
        time.perf_counter() - began_s,
        request_id=exchange.id,
        trace_id=exchange.trace.trace_id,
        peer=exchange.peer,
    )


async def upgrade(app: Application, exchange: HttpExchange) -> None:
    """Who asks for the path without asking for a socket."""
    raise Rejection(
        426,
        "transport.upgrade-needed",
        f"`{PATH}` is a WebSocket",
        hint="`/v1/streams` answers to plain requests",
        headers={"upgrade": "websocket", "connection": "upgrade"},
    )


async def _enter(app: Application, exchange: HttpExchange) -> None:
    """Who may not come in is refused."""
    app.gate.check(exchange.headers)
    where = {"request_id": exchange.id, "peer": exchange.peer}
    exchange.caller = app.identify(exchange.headers, **where)
    if exchange.path != PATH:
        message = f"there is no WebSocket {exchange.path[:100]!r}"
        raise Rejection(404, "transport.route-unknown", message, hint=f"it is `{PATH}`")
    if app.is_draining:
        raise shutting_down()
    app.held.check(exchange.caller, app.settings.max_streams)


async def _deny(app: Application, scope: Scope, exchange: HttpExchange, raised: Exception) -> None:
    """A status and the reason where the server below can say it; a closed socket elsewhere."""
    error, words = app.explained(raised, exchange.id)
    exchange.status = status_of(error)
    if _DENIAL not in (scope.get("extensions") or {}):
        await exchange.send({"type": "websocket.close", "code": POLICY, "reason": error.code})
        return
    send = exchange.send

    def denied(message: Message) -> Any:
        return send({**message, "type": f"websocket.{message['type']}"})

    exchange.send = denied
    headers = error.headers if isinstance(error, Rejection) else {}
    await exchange.answer(torvyn_error_body(error, words), exchange.status, headers=headers)


async def _held(app: Application, exchange: HttpExchange, protocols: Sequence[str]) -> None:
    channel = SocketChannel(exchange, PROTOCOL if PROTOCOL in protocols else None)
    conversation = Multiplexer(app, channel, exchange.headers.get("traceparent"))
    reading = _Reading(conversation, exchange.receive, app.settings.max_body_bytes)

    async def close() -> None:
        code = reading.code
        if conversation.ended is not None:
            code = POLICY if conversation.ended.status == 401 else GOING_AWAY
        if code is not None and not conversation.outlet.is_cut:
            word = exchange.send({"type": "websocket.close", "code": code, "reason": REASONS[code]})
            with contextlib.suppress(OSError):  # also when it takes too long
                await asyncio.wait_for(word, _LAST_WORD_S)

    await conversation.hold(reading.run(), close)


class _Reading:
    """What the client says, message by message."""

    def __init__(self, conversation: Multiplexer, receive: Receive, limit: int) -> None:
        self.code: int | None = None
        """With what to close the socket; None: nobody is there."""
        self._conversation = conversation
        self._receive = receive
        self._limit = limit

    async def run(self) -> None:
        try:
            await self._read()
        except Exception:
            self.code = FAILED
            raise

    async def _read(self) -> None:
        while True:
            message = await self._receive()
            if message["type"] != "websocket.receive":
                return
            text = message.get("text")
            if _size(text if text is not None else message.get("bytes")) > self._limit:
                self.code = TOO_BIG
                return
            await self._take(text)

    async def _take(self, text: str | None) -> None:
        conversation = self._conversation
        try:
            if text is None:
                words = "a message is text, not binary data"
                raise Rejection(400, "transport.message-invalid", words)
            said = parsed(text.encode(), "message")
        except Rejection as rejection:
            await conversation.refuse(rejection)
        else:
            await conversation.take(said)


def _settle(waiter: asyncio.Future[None], sent: asyncio.Future[None]) -> None:
    """Who still waits is told how the sending went."""
    error = None if sent.cancelled() else sent.exception()
    if waiter.done():
        return
    if error is not None:
        waiter.set_exception(error)
    else:
        waiter.set_result(None)


def _size(data: str | bytes | None) -> int:
    if isinstance(data, str) and not data.isascii():
        return len(data.encode(errors="replace"))
    return len(data or b"")


REASONS: Final = {
    GOING_AWAY: "the server is shutting down",
    TOO_BIG: "the message is larger than `max_body` of `[serve]`",
    FAILED: "the server failed; its log says how",
    POLICY: "the key was revoked, or has expired",
}
