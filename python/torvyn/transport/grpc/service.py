"""The calls of `torvyn.v1.Inference`: a request in, frames out.

Messages arrive and leave as bytes, so that an invalid one is rejected with an error of ours and
nothing is serialized twice. A call that its client cancels counts as a connection that was closed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import grpc

from torvyn.errors import Internal
from torvyn.protocol import traceparent
from torvyn.transport import request_body
from torvyn.transport.access.caller import ANYONE
from torvyn.transport.grpc.messages import body_of, parse, record_of
from torvyn.transport.grpc.status import GrpcStatus
from torvyn.transport.grpc.wire import CallWriter, GrpcChannel, GrpcWire
from torvyn.transport.http.exchange import request_id
from torvyn.transport.multiplex.multiplexer import Multiplexer
from torvyn.transport.rejection import Rejection, client_stalled
from torvyn.v1 import inference_pb2 as pb

if TYPE_CHECKING:
    from torvyn.transport.access.authentication import Authenticator
    from torvyn.transport.dispatch.dispatcher import Dispatcher
    from torvyn.transport.rejection import ErrorReporter
    from torvyn.transport.telemetry.request_log import RequestLog

SERVICE: Final = "torvyn.v1.Inference"


class Inference:
    """The methods of the service."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        authenticator: Authenticator,
        request_log: RequestLog,
        sample_rate: float,
    ) -> None:
        self._dispatcher = dispatcher
        self._write_timeout_s = dispatcher.settings.write_timeout_s
        self._sample_rate = sample_rate
        entry = (dispatcher.errors, authenticator, request_log, sample_rate)
        self.rpc = partial(Rpc, *entry)
        """Makes the `Rpc` of a call, from its context and its method."""

    def handlers(self) -> Any:
        """For `add_generic_rpc_handlers` of a gRPC server."""
        methods = {
            "Generate": grpc.unary_stream_rpc_method_handler(self.generate),
            "Session": grpc.stream_stream_rpc_method_handler(self.session),
        }
        return grpc.method_handlers_generic_handler(SERVICE, methods)

    async def generate(self, data: bytes, context: Any) -> None:
        """One answer."""
        rpc = self.rpc(context, "Generate")
        await rpc.run(self._answer(rpc, data))

    async def session(self, _: Any, context: Any) -> None:
        """Many answers, controlled by the client's messages."""
        rpc = self.rpc(context, "Session")
        await rpc.run(self._multiplex(rpc))

    async def _answer(self, rpc: Rpc, data: bytes) -> None:
        rpc.identify()
        request = request_body.parse_torvyn(body_of(parse(pb.GenerateRequest, data)))
        wire = GrpcWire(rpc.writer, rpc.id, rpc.caller, **rpc.context)
        try:
            await self._dispatcher.answer(wire, request)
        finally:
            rpc.summary = wire.summary
        if wire.has_ended or rpc.writer.is_left:
            return
        if not rpc.writer.is_stuck:
            raise Internal("the answer ended early; see the log", code="transport.failed")
        raise client_stalled(self._write_timeout_s)

    async def _multiplex(self, rpc: Rpc) -> None:
        rpc.identify()
        running = self._dispatcher.running
        running.check_accepting()
        running.channels.check(rpc.caller, self._dispatcher.settings.max_streams)
        channel = GrpcChannel(rpc.writer, rpc.id, rpc.caller, **rpc.context)
        new_trace = partial(traceparent.begin, None, self._sample_rate)
        multiplexer = Multiplexer(self._dispatcher, channel, new_trace)
        await multiplexer.run(rpc.read(multiplexer))
        if multiplexer.sender.is_cut:
            raise client_stalled(self._write_timeout_s)
        running.check_accepting()
        if multiplexer.end_reason is not None and multiplexer.end_reason.status == 401:
            raise multiplexer.end_reason


class Reflection:
    """Describes the services to authenticated callers."""

    def __init__(self, inference: Inference, servicer: Any) -> None:
        self._inference = inference
        self._servicer = servicer

    async def ServerReflectionInfo(self, requests: Any, context: Any) -> AsyncIterator[Any]:
        rpc = self._inference.rpc(context, "")
        try:
            rpc.identify()
        except Rejection as rejection:
            await rpc.reject(rejection)
        async for answer in self._servicer.ServerReflectionInfo(requests, context):
            yield answer


class Rpc:
    """One call: its caller, its id, and the status with which it ends."""

    def __init__(
        self,
        errors: ErrorReporter,
        authenticator: Authenticator,
        request_log: RequestLog,
        sample_rate: float,
        context: Any,
        method: str,
    ) -> None:
        self._errors = errors
        self._authenticator = authenticator
        self._request_log = request_log
        self._context = context
        self._route = f"/{SERVICE}/{method}"
        metadata = context.invocation_metadata() or ()
        self.headers = {key: value for key, value in metadata if isinstance(value, str)}
        self.id = request_id(self.headers)
        self.caller = ANYONE
        self.trace = traceparent.begin(self.headers.get("traceparent"), sample_rate)
        initial = (("x-request-id", self.id), ("traceparent", self.trace.traceparent))
        self.writer = CallWriter(context, initial)
        # Such as `ipv4:127.0.0.1:50400` and `ipv6:%5B::1%5D:50400`.
        host = unquote(context.peer()).partition(":")[2].rpartition(":")[0]
        self._peer = host.strip("[]") or None
        self.summary: Mapping[str, Any] = {}
        """Of the answer, for the request log."""
        self._code = grpc.StatusCode.OK

    @property
    def context(self) -> dict[str, Any]:
        """The path and the peer, for a wire."""
        return {"path": self._route, "peer": self._peer}

    def identify(self) -> None:
        """Sets the caller. Raises a rejection."""
        self.caller = self._authenticator.identify(
            self.headers, request_id=self.id, peer=self._peer
        )

    async def read(self, multiplexer: Multiplexer) -> None:
        """Passes the client's messages on; returns when the client has left."""
        while (data := await self._context.read()) is not grpc.aio.EOF:
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
        await self.writer.until_left()

    async def run(self, work: Awaitable[None]) -> None:
        """Does the work; an exception becomes the status of the call."""
        started_s = time.perf_counter()
        traceparent.CURRENT.set(self.trace)
        try:
            error = await self._error_of(work)
            if error is not None:
                await self.reject(error)
        finally:
            self._log(time.perf_counter() - started_s)

    async def _error_of(self, work: Awaitable[None]) -> Exception | None:
        """Does the work; returns what it raised. If the client cancels the call, gRPC cancels this
        task."""
        task = asyncio.ensure_future(work)
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            self._code = grpc.StatusCode.CANCELLED
            self.writer.leave()
            if not self.writer.has_begun:
                task.cancel()
            await asyncio.wait([task])
            if not task.cancelled() and isinstance(error := task.exception(), Exception):
                self._errors.report(error, self.id)  # for the log: the client has left
            raise
        except Exception as raised:
            return raised
        return None

    async def reject(self, raised: Exception) -> None:
        error, message = self._errors.report(raised, self.id)
        status = GrpcStatus(error, message, self.id)
        self._code = status.code
        await self._context.abort(status.code, status.message, status.trailers)

    def _log(self, duration_s: float) -> None:
        number = self._code.value[0]
        self._request_log.count("GRPC", self._route, number)
        self._request_log.write(
            "GRPC",
            self._route,
            number,
            duration_s,
            self._code.name,
            request_id=self.id,
            trace_id=self.trace.trace_id,
            peer=self._peer,
            summary=self.summary,
        )
