"""What `torvyn.v1.Inference` answers: a call in, frames out.

Messages arrive and leave as bytes, so that one that is none is refused in our words, and nothing is
serialized twice. A call that its client cancels is left, like a connection that was closed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import grpc

from torvyn.errors import Internal
from torvyn.protocol import traceparent
from torvyn.transport import request_body
from torvyn.transport.access.caller import ANYONE
from torvyn.transport.grpc.messages import body_of, read, record_of
from torvyn.transport.grpc.status import GrpcStatus
from torvyn.transport.grpc.wire import CallWriter, GrpcChannel, GrpcWire
from torvyn.transport.http.exchange import chosen_id
from torvyn.transport.multiplex.multiplexer import Multiplexer
from torvyn.transport.rejection import Rejection, shutting_down, unread
from torvyn.transport.telemetry.request_log import log_request
from torvyn.v1 import inference_pb2 as pb

if TYPE_CHECKING:
    from torvyn.transport.application import Application

SERVICE: Final = "torvyn.v1.Inference"


class Inference:
    """The methods of the service, on an application."""

    def __init__(self, application: Application) -> None:
        self._application = application

    def handlers(self) -> Any:
        """What a server of gRPC takes."""
        methods = {
            "Generate": grpc.unary_stream_rpc_method_handler(self.generate),
            "Session": grpc.stream_stream_rpc_method_handler(self.session),
        }
        return grpc.method_handlers_generic_handler(SERVICE, methods)

    async def generate(self, data: bytes, context: Any) -> None:
        """One answer."""
        rpc = Rpc(self._application, context, "Generate")
        await rpc.run(self._answer(rpc, data))

    async def session(self, _: Any, context: Any) -> None:
        """Many answers, steered by messages."""
        rpc = Rpc(self._application, context, "Session")
        await rpc.run(self._converse(rpc))

    async def _answer(self, rpc: Rpc, data: bytes) -> None:
        application = self._application
        rpc.identify()
        request = request_body.parse_torvyn(body_of(read(pb.GenerateRequest, data)))
        wire = GrpcWire(rpc.line, rpc.id, rpc.caller, **rpc.where)
        try:
            await application.answer(wire, request)
        finally:
            rpc.summary = wire.summary
        if wire.has_ended or rpc.line.is_left:
            return
        if not rpc.line.is_stuck:
            raise Internal("the answer broke off; the log says why", code="transport.failed")
        raise unread(application.settings.write_timeout_s)

    async def _converse(self, rpc: Rpc) -> None:
        application = self._application
        rpc.identify()
        if application.is_draining:
            raise shutting_down()
        application.held.check(rpc.caller, application.settings.max_streams)
        channel = GrpcChannel(rpc.line, rpc.id, rpc.caller, **rpc.where)
        conversation = Multiplexer(application, channel)
        await conversation.hold(rpc.read(conversation))
        if conversation.outlet.is_cut:
            raise unread(application.settings.write_timeout_s)
        if application.is_draining:
            raise shutting_down()
        if conversation.ended is not None and conversation.ended.status == 401:
            raise conversation.ended


class Reflection:
    """What there is, for those who may ask at all."""

    def __init__(self, application: Application, servicer: Any) -> None:
        self._application = application
        self._servicer = servicer

    async def ServerReflectionInfo(self, requests: Any, context: Any) -> AsyncIterator[Any]:
        rpc = Rpc(self._application, context, "")
        try:
            rpc.identify()
        except Rejection as rejection:
            await rpc.refuse(rejection)
        async for answer in self._servicer.ServerReflectionInfo(requests, context):
            yield answer


class Rpc:
    """One call: who asks, under which id, and with which status it ends."""

    def __init__(self, application: Application, context: Any, method: str) -> None:
        self._application = application
        self._context = context
        self._route = f"/{SERVICE}/{method}"
        metadata = context.invocation_metadata() or ()
        self.headers = {key: value for key, value in metadata if isinstance(value, str)}
        self.id = chosen_id(self.headers)
        self.caller = ANYONE
        self.trace = traceparent.begin(self.headers.get("traceparent"), application.sample_rate)
        head = (("x-request-id", self.id), ("traceparent", self.trace.traceparent))
        self.line = CallWriter(context, head)
        # Such as `ipv4:127.0.0.1:50400` and `ipv6:%5B::1%5D:50400`.
        host = unquote(context.peer()).partition(":")[2].rpartition(":")[0]
        self._peer = host.strip("[]") or None
        self.summary: Mapping[str, Any] = {}
        """Of the answer, when there was one."""
        self._code = grpc.StatusCode.OK

    @property
    def where(self) -> dict[str, Any]:
        """What a wire is to know of the call."""
        return {"path": self._route, "peer": self._peer}

    def identify(self) -> None:
        """Finds out who asks; raises the rejection."""
        where = {"request_id": self.id, "peer": self._peer}
        self.caller = self._application.identify(self.headers, **where)

    async def read(self, conversation: Multiplexer) -> None:
        """Gives it what the client says; returns when the client has gone."""
        while (data := await self._context.read()) is not grpc.aio.EOF:
            stream_id = None
            try:
                message = read(pb.ClientMessage, data)
                stream_id = message.stream_id or None
                record = record_of(message)
            except Rejection as rejection:
                await conversation.refuse(rejection, stream_id)
            else:
                await conversation.take(record)
        # It has no more to say, and may still listen.
        conversation.drain()
        await self.line.until_left()

    async def run(self, work: Awaitable[None]) -> None:
        """Does the work; what it raises is the status of the call."""
        began_s = time.perf_counter()
        traceparent.CURRENT.set(self.trace)
        try:
            error = await self._worked(work)
            if error is not None:
                await self.refuse(error)
        finally:
            self._count(time.perf_counter() - began_s)

    async def _worked(self, work: Awaitable[None]) -> Exception | None:
        """What it raised. A call that its client cancels is a task that gRPC cancels."""
        task = asyncio.ensure_future(work)
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            self._code = grpc.StatusCode.CANCELLED
            self.line.leave()
            if not self.line.has_begun:
                task.cancel()
            await asyncio.wait([task])
            if not task.cancelled() and isinstance(error := task.exception(), Exception):
                # Nobody is there to be told; the log may be.
                self._application.explained(error, self.id)
            raise
        except Exception as raised:
            return raised
        return None

    async def refuse(self, raised: Exception) -> None:
        error, words = self._application.explained(raised, self.id)
        status = GrpcStatus(error, words, self.id)
        self._code = status.code
        await self._context.abort(status.code, status.words, status.trailers)

    def _count(self, took_s: float) -> None:
        code, number = self._code, self._code.value[0]
        self._application.meter.requests["GRPC", self._route, number] += 1
        log_request(
            "GRPC",
            self._route,
            number,
            took_s,
            code.name,
            request_id=self.id,
            trace_id=self.trace.trace_id,
            peer=self._peer,
            summary=self.summary,
        )
