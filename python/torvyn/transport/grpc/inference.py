"""The calls of `torvyn.v1.Inference`: a request in, frames out.

Messages arrive and leave as bytes, so that an invalid one is rejected with an error of ours and
nothing is serialized twice.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from torvyn.errors import Internal
from torvyn.protocol import traceparent
from torvyn.transport import request_body
from torvyn.transport.grpc.messages import body_of, parse, record_of
from torvyn.transport.grpc.wire import GrpcChannel, GrpcWire
from torvyn.transport.multiplex.multiplexer import Multiplexer
from torvyn.transport.rejection import Rejection, client_stalled
from torvyn.v1 import inference_pb2 as pb

if TYPE_CHECKING:
    from torvyn.transport.dispatch.dispatcher import Dispatcher
    from torvyn.transport.grpc.exchange import GrpcExchange
    from torvyn.transport.telemetry.request_log import RequestLog

SERVICE: Final = "torvyn.v1.Inference"


class Inference:
    def __init__(self, dispatcher: Dispatcher, request_log: RequestLog, sample_rate: float) -> None:
        self._dispatcher = dispatcher
        self._request_log = request_log
        self._write_timeout_s = dispatcher.settings.write_timeout_s
        self._new_trace = partial(traceparent.begin, None, sample_rate)

    async def generate(self, exchange: GrpcExchange) -> None:
        """One answer."""
        data = await exchange.read_one()
        request = request_body.parse_torvyn(body_of(parse(pb.GenerateRequest, data)))
        await self._dispatcher.answer(GrpcWire(exchange), request)
        if exchange.has_last_frame or exchange.is_over:
            return
        if not exchange.is_stuck:
            raise Internal("the answer ended early; see the log", code="transport.failed")
        raise client_stalled(self._write_timeout_s)

    async def session(self, exchange: GrpcExchange) -> None:
        """Many answers, controlled by the client's messages."""
        running = self._dispatcher.running
        running.check_accepting()
        running.channels.check(exchange.caller, self._dispatcher.settings.max_streams)
        channel = GrpcChannel(exchange)
        multiplexer = Multiplexer(self._dispatcher, self._request_log, channel, self._new_trace)
        await multiplexer.run(_read(exchange, multiplexer))
        if multiplexer.sender.is_cut:
            raise client_stalled(self._write_timeout_s)
        running.check_accepting()
        if multiplexer.end_reason is not None and multiplexer.end_reason.status == 401:
            raise multiplexer.end_reason


async def _read(exchange: GrpcExchange, multiplexer: Multiplexer) -> None:
    """Passes the client's messages on; returns when the client has left."""
    while (data := await _next(exchange)) is not None:
        stream_id = None
        try:
            message = parse(pb.ClientMessage, data)
            stream_id = message.stream_id or None
            record = record_of(message)
        except Rejection as rejection:
            await multiplexer.reject(rejection, stream_id)
        else:
            await multiplexer.handle(record)
    # The client sends no more messages, but may still read.
    multiplexer.drain()
    await exchange.until_left()


async def _next(exchange: GrpcExchange) -> bytes | None:
    """The next message. One that cannot be read ends the call."""
    try:
        return await exchange.read()
    except Rejection as rejection:
        exchange.cut(rejection)
        return None
