"""The WebSocket endpoint, `/v1/ws`: one socket from its handshake to its close code.

Host, origin and API key are checked before the socket is accepted, so a page of another origin gets
a status and nothing else. The server below waits in `send` while a client does not read, so a slow
client slows its engines as it does over HTTP.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from torvyn.protocol import traceparent
from torvyn.transport.http.asgi_exchange import AsgiExchange, Message, Receive, Scope, Send
from torvyn.transport.http.exchange import HttpExchange
from torvyn.transport.multiplex.multiplexer import Multiplexer
from torvyn.transport.rejection import Rejection, status_of, torvyn_error_body
from torvyn.transport.websocket.channel import PATH, SocketChannel
from torvyn.transport.websocket.message_reader import FAILED, TOO_BIG, MessageReader

if TYPE_CHECKING:
    from torvyn.transport.access.authentication import Authenticator
    from torvyn.transport.access.host_check import HostCheck
    from torvyn.transport.dispatch.dispatcher import Dispatcher
    from torvyn.transport.telemetry.request_log import RequestLog

PROTOCOL: Final = "torvyn.v1"
GOING_AWAY: Final = 1001
POLICY: Final = 1008
REASONS: Final = {
    GOING_AWAY: "the server is shutting down",
    TOO_BIG: "the message is larger than `max_body` of `[serve]`",
    FAILED: "the server failed; see its log",
    POLICY: "the API key was revoked or has expired",
}
_DENIAL: Final = "websocket.http.response"
_CLOSE_TIMEOUT_S: Final = 1.0


class WebSocketEndpoint:
    def __init__(
        self,
        dispatcher: Dispatcher,
        host_check: HostCheck,
        authenticator: Authenticator,
        request_log: RequestLog,
        sample_rate: float,
    ) -> None:
        self._dispatcher = dispatcher
        self._host_check = host_check
        self._authenticator = authenticator
        self._request_log = request_log
        self._sample_rate = sample_rate

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        started_s = time.perf_counter()
        exchange = AsgiExchange({**scope, "method": "GET"}, receive, send)
        await receive()
        try:
            self._admit(exchange)
        except Exception as error:
            await self._deny(scope, exchange, error)
        else:
            exchange.status = 101
            has_protocol = PROTOCOL in (scope.get("subprotocols") or ())
            await self._serve(exchange, PROTOCOL if has_protocol else None)
        self._request_log.count("GET", PATH, exchange.status)
        self._request_log.write(
            "WEBSOCKET",
            PATH,
            exchange.status,
            time.perf_counter() - started_s,
            request_id=exchange.id,
            trace_id=exchange.trace.trace_id,
            peer=exchange.peer,
        )

    def _admit(self, exchange: AsgiExchange) -> None:
        self._host_check.check(exchange.headers)
        exchange.caller = self._authenticator.identify(
            exchange.headers, request_id=exchange.id, peer=exchange.peer
        )
        if exchange.path != PATH:
            message = f"the WebSocket {exchange.path[:100]!r} does not exist"
            raise Rejection(404, "transport.route-unknown", message, hint=f"use `{PATH}`")
        running = self._dispatcher.running
        running.check_accepting()
        running.channels.check(exchange.caller, self._dispatcher.settings.max_streams)

    async def _deny(self, scope: Scope, exchange: AsgiExchange, raised: Exception) -> None:
        """Sends a status and an error where the server below can; closes the socket elsewhere."""
        error, message = self._dispatcher.errors.report(raised, exchange.id)
        exchange.status = status_of(error)
        if _DENIAL not in (scope.get("extensions") or {}):
            await exchange.send({"type": "websocket.close", "code": POLICY, "reason": error.code})
            return
        send = exchange.send

        def send_denial(message: Message) -> Any:
            return send({**message, "type": f"websocket.{message['type']}"})

        exchange.send = send_denial
        headers = error.headers if isinstance(error, Rejection) else {}
        await exchange.answer(torvyn_error_body(error, message), exchange.status, headers=headers)

    async def _serve(self, exchange: AsgiExchange, protocol: str | None) -> None:
        header = exchange.headers.get("traceparent")
        new_trace = partial(traceparent.begin, header, self._sample_rate)
        multiplexer = Multiplexer(self._dispatcher, SocketChannel(exchange, protocol), new_trace)
        limit_bytes = self._dispatcher.settings.max_body_bytes
        reader = MessageReader(multiplexer, exchange.receive, limit_bytes)

        async def close() -> None:
            code = reader.close_code
            if multiplexer.end_reason is not None:
                code = POLICY if multiplexer.end_reason.status == 401 else GOING_AWAY
            if code is not None and not multiplexer.sender.is_cut:
                message = {"type": "websocket.close", "code": code, "reason": REASONS[code]}
                with contextlib.suppress(OSError):  # also when it takes too long
                    await asyncio.wait_for(exchange.send(message), _CLOSE_TIMEOUT_S)

        await multiplexer.run(reader.run(), close)


async def upgrade_required(exchange: HttpExchange) -> None:
    """Rejects a plain request to the path of the WebSocket."""
    raise Rejection(
        426,
        "transport.upgrade-needed",
        f"`{PATH}` is a WebSocket",
        hint="send plain requests to `/v1/streams`",
        headers={"upgrade": "websocket", "connection": "upgrade"},
    )
