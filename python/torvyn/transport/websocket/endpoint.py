"""The WebSocket endpoint, `/v1/ws`: one socket from its handshake to its close code.

Host, origin and API key are checked before the socket is accepted, so a page of another origin gets
a status and nothing else. A post waits while a client does not read, so a slow client slows its
engines as it does over HTTP.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from torvyn.protocol import traceparent
from torvyn.transport.http.exchange import HttpExchange
from torvyn.transport.multiplex.multiplexer import Multiplexer
from torvyn.transport.rejection import Rejection, headers_of, row_of, torvyn_error_body
from torvyn.transport.websocket.channel import PATH, SocketChannel
from torvyn.transport.websocket.message_reader import POLICY, MessageReader

if TYPE_CHECKING:
    from torvyn.transport.access.authentication import Authenticator
    from torvyn.transport.access.host_check import HostCheck
    from torvyn.transport.dispatch.dispatcher import Dispatcher
    from torvyn.transport.telemetry.request_log import RequestLog
    from torvyn.transport.websocket.socket import WebSocket

PROTOCOL: Final = "torvyn.v1"
GOING_AWAY: Final = 1001
_KEY_ENDED: Final = (POLICY, "the API key was revoked or has expired")
_SHUTTING_DOWN: Final = (GOING_AWAY, "the server is shutting down")


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

    async def handle(self, socket: WebSocket[Any]) -> None:
        started_s = time.perf_counter()
        exchange = socket.exchange
        try:
            await socket.check()
            self._admit(exchange)
        except Exception as error:
            await self._deny(socket, error)
        else:
            exchange.status = 101
            await self._serve(socket)
        self._request_log.count("GET", PATH, exchange.status)
        self._request_log.write(
            "WEBSOCKET",
            PATH,
            exchange.status,
            time.perf_counter() - started_s,
            request_id=exchange.id,
            trace_id=exchange.trace.trace_id,
            peer=exchange.peer,
            summary=exchange.summary,
        )

    def _admit(self, exchange: HttpExchange) -> None:
        exchange.check()
        self._host_check.check(exchange.headers)
        context = {"request_id": exchange.id, "peer": exchange.peer}
        exchange.recognise(self._authenticator.identify(exchange.headers, **context))
        if exchange.path != PATH:
            message = f"the WebSocket {exchange.path[:100]!r} does not exist"
            raise Rejection(404, "transport.route-unknown", message, hint=f"use `{PATH}`")
        running = self._dispatcher.running
        running.check_accepting()
        running.channels.check(exchange.caller, self._dispatcher.settings.max_streams)

    async def _deny(self, socket: WebSocket[Any], raised: Exception) -> None:
        error, message = self._dispatcher.errors.report(raised, socket.exchange.id)
        socket.exchange.status = status = row_of(error).status
        socket.exchange.summary = {"error": error.code}
        body = torvyn_error_body(error, message)
        await socket.deny(status, body, headers_of(error), error.code)

    async def _serve(self, socket: WebSocket[Any]) -> None:
        header = socket.exchange.headers.get("traceparent")
        new_trace = partial(traceparent.begin, header, self._sample_rate)
        channel = SocketChannel(socket, PROTOCOL if socket.offers(PROTOCOL) else None)
        multiplexer = Multiplexer(self._dispatcher, self._request_log, channel, new_trace)
        reader = MessageReader(multiplexer, socket)

        async def close() -> None:
            how = reader.close
            if multiplexer.end_reason is not None:
                how = _KEY_ENDED if multiplexer.end_reason.status == 401 else _SHUTTING_DOWN
            if how is not None and not multiplexer.sender.is_cut:
                await socket.close(*how)

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
