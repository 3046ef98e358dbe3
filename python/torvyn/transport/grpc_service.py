"""What `torvyn.v1.Inference` answers: a call in, frames out.

Messages arrive and leave as bytes, so that one that is none is refused in our words, and nothing is
serialized twice. A call that its client cancels is left, like a connection that was closed.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, Final

import grpc

from torvyn.errors import Internal, TorvynError
from torvyn.observe.logs import Redactor
from torvyn.transport import asked
from torvyn.transport.caller import ANYONE
from torvyn.transport.exchange import chosen_id
from torvyn.transport.grpc_request import body_of, read
from torvyn.transport.grpc_status import Status
from torvyn.transport.grpc_wire import GrpcWire
from torvyn.transport.refusal import Refusal, told
from torvyn.v1 import inference_pb2 as pb

if TYPE_CHECKING:
    from torvyn.transport.application import Application

SERVICE: Final = "torvyn.v1.Inference"

logger = logging.getLogger("torvyn.transport")


class Inference:
    """The methods of the service, on an application."""

    def __init__(self, application: Application) -> None:
        self._application = application

    def handlers(self) -> Any:
        """What a server of gRPC takes."""
        methods = {"Generate": grpc.unary_stream_rpc_method_handler(self.generate)}
        return grpc.method_handlers_generic_handler(SERVICE, methods)

    async def generate(self, data: bytes, context: Any) -> None:
        """One answer."""
        rpc = Rpc(self._application, context, "Generate")
        await rpc.run(self._answer(rpc, data))

    async def _answer(self, rpc: Rpc, data: bytes) -> None:
        wanted = asked.own(body_of(read(pb.GenerateRequest, data)))
        await self._application.answer(rpc.wire, wanted)
        if not rpc.wire.has_ended and not rpc.wire.is_left:
            raise _broken_off(rpc.wire, self._application.settings.write_timeout_s)


class Rpc:
    """One call: who asks, under which id, and with which status it ends."""

    def __init__(self, application: Application, context: Any, method: str) -> None:
        self._application = application
        self._context = context
        self._route = f"/{SERVICE}/{method}"
        metadata = context.invocation_metadata() or ()
        self.headers = {key: value for key, value in metadata if isinstance(value, str)}
        self.id = chosen_id(self.headers)
        self.wire = GrpcWire(context, self.id, ANYONE)
        self._code = grpc.StatusCode.OK

    async def run(self, work: Awaitable[None]) -> None:
        """Does the work; what it raises is the status of the call."""
        began_s = time.perf_counter()
        try:
            error = await self._worked(work)
            if error is not None:
                await self._refuse(error)
        finally:
            self._count(time.perf_counter() - began_s)

    async def _worked(self, work: Awaitable[None]) -> TorvynError | None:
        task = asyncio.ensure_future(work)
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            self._code = grpc.StatusCode.CANCELLED
            self.wire.leave()
            if not self.wire.has_begun:
                task.cancel()
            await asyncio.wait([task])
            raise
        except Exception as raised:
            return self._told(raised)
        return None

    def _told(self, raised: Exception) -> TorvynError:
        error = told(raised)
        if error.__cause__ is raised:
            logger.exception("request %s failed", self.id, exc_info=raised)
        return error

    async def _refuse(self, error: TorvynError) -> None:
        words = Redactor(self._application.settings.secrets).text(error.message)
        status = Status(error, words, self.id)
        self._code = status.code
        await self._context.abort(status.code, status.words, status.trailers)

    def _count(self, took_s: float) -> None:
        code, number = self._code, self._code.value[0]
        self._application.meter.requests["GRPC", self._route, number] += 1
        fields = {"event": "request", "request_id": self.id, "status": number}
        words = (self._route, code.name, took_s * 1000, self.id)
        logger.info("GRPC %s %s %.1f ms %s", *words, extra=fields)


def _broken_off(wire: GrpcWire, after_s: float) -> TorvynError:
    """Why the last frame was never sent."""
    if not wire.is_stuck:
        return Internal("the answer broke off; the server's log says why", code="transport.failed")
    message = f"nothing of the stream was read for {after_s:g} s"
    hint = "`write_timeout` of `[serve]` is the limit"
    return Refusal(408, "transport.unread", message, hint=hint)
