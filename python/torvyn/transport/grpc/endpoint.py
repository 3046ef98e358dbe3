"""One gRPC call from its head to its status: deadline, API key, method, log line.

The services need packages that are slow to load and may be missing, so they are loaded for the
first call, unless the server has a port for gRPC.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple

from torvyn.errors import MissingError
from torvyn.protocol import traceparent
from torvyn.transport.grpc.packages import require_packages
from torvyn.transport.grpc.status import GrpcStatus
from torvyn.transport.rejection import Rejection, shutting_down
from torvyn.transport.status_table import Code

if TYPE_CHECKING:
    from torvyn.transport.access.authentication import Authenticator
    from torvyn.transport.dispatch.dispatcher import Dispatcher
    from torvyn.transport.grpc.exchange import GrpcExchange
    from torvyn.transport.grpc.health import Health
    from torvyn.transport.telemetry.request_log import RequestLog


class Method(NamedTuple):
    answer: Callable[[GrpcExchange], Awaitable[None]]
    needs_key: bool = True


class GrpcEndpoint:
    def __init__(
        self,
        dispatcher: Dispatcher,
        authenticator: Authenticator,
        request_log: RequestLog,
        sample_rate: float,
    ) -> None:
        self._dispatcher = dispatcher
        self._authenticator = authenticator
        self._request_log = request_log
        self._sample_rate = sample_rate
        self._methods: dict[str, Method] = {}
        """By path; empty until they are loaded."""
        self._health: Health | None = None
        self._open: set[GrpcExchange] = set()

    def load(self) -> None:
        """Raises an error if a package is missing."""
        if self._methods:
            return
        require_packages()
        from torvyn.transport.grpc import health, inference, reflection

        calls = inference.Inference(self._dispatcher, self._request_log, self._sample_rate)
        names = (inference.SERVICE, health.SERVICE)
        described = reflection.Reflection(names)
        self._health = health.Health(("", *names[:1]), self._dispatcher.running)
        listed = Method(self._health.list_all, needs_key=False)
        self._methods = {
            f"/{inference.SERVICE}/Generate": Method(calls.generate),
            f"/{inference.SERVICE}/Session": Method(calls.session),
            f"/{health.SERVICE}/Check": Method(self._health.check, needs_key=False),
            f"/{health.SERVICE}/Watch": Method(self._health.watch, needs_key=False),
            **({f"/{health.SERVICE}/List": listed} if health.HAS_LIST else {}),
            **{path: Method(described.answer) for path in reflection.PATHS},
        }

    def drain(self) -> None:
        """Reports NOT_SERVING; the dispatcher rejects new requests."""
        if self._health is not None:
            self._health.drain()

    def close(self) -> None:
        """Ends the calls that still run."""
        for exchange in list(self._open):
            exchange.cut(shutting_down())

    async def handle(self, exchange: GrpcExchange) -> None:
        started_s = time.perf_counter()
        code = Code.CANCELLED
        before = traceparent.CURRENT.set(exchange.trace)
        self._open.add(exchange)
        try:
            code = await self._answer(exchange)
        finally:
            self._open.discard(exchange)
            traceparent.CURRENT.reset(before)
            self._log(exchange, code, time.perf_counter() - started_s)

    async def _answer(self, exchange: GrpcExchange) -> Code:
        """Answers the call; returns its status."""
        try:
            await self._run(exchange)
            error = None
        except Exception as raised:
            error = raised
        if exchange.cut_reason is not None:
            error = exchange.cut_reason
        elif exchange.is_over:
            if error is not None:
                self._dispatcher.errors.report(error, exchange.id)  # for the log
            return Code.CANCELLED
        if error is None:
            exchange.end_call(Code.OK, "", ())
            return Code.OK
        return self._reject(exchange, error)

    async def _run(self, exchange: GrpcExchange) -> None:
        """Does what the method says, until the call is over."""
        task = asyncio.current_task()
        assert task is not None

        def stop() -> None:
            if not exchange.is_watched:
                task.cancel()

        try:
            exchange.check()
            exchange.when_over(stop)
            if not self._methods:
                await asyncio.to_thread(self.load)
            method = self._methods.get(exchange.path)
            if method is None:
                raise method_unknown(exchange.path)
            if method.needs_key:
                context = {"request_id": exchange.id, "peer": exchange.peer}
                exchange.recognise(self._authenticator.identify(exchange.headers, **context))
            await method.answer(exchange)
        except asyncio.CancelledError:
            if not exchange.is_over:
                raise
            task.uncancel()
        finally:
            exchange.when_over(None)

    def _reject(self, exchange: GrpcExchange, raised: Exception) -> Code:
        if isinstance(raised, MissingError) and not self._methods:
            # Without the packages a status has no details.
            exchange.end_call(Code.UNIMPLEMENTED, f"{raised.message}: {raised.hint}", ())
            return Code.UNIMPLEMENTED
        error, message = self._dispatcher.errors.report(raised, exchange.id)
        if not exchange.summary.get("error"):
            exchange.summary = {**exchange.summary, "error": error.code}
        status = GrpcStatus(error, message)
        exchange.end_call(status.code, status.message, status.metadata)
        return status.code

    def _log(self, exchange: GrpcExchange, code: Code, duration_s: float) -> None:
        # The client chooses the path: only those that exist are counted apart.
        route = exchange.path if exchange.path in self._methods else "unknown"
        self._request_log.count("GRPC", route, code)
        self._request_log.write(
            "GRPC",
            route,
            code,
            duration_s,
            code.name,
            request_id=exchange.id,
            trace_id=exchange.trace.trace_id,
            peer=exchange.peer,
            summary=exchange.summary,
        )


def method_unknown(path: str) -> Rejection:
    message = f"the method {path[:100]!r} does not exist"
    hint = "reflection lists the services; `torvyn schema --grpc` prints their .proto file"
    return Rejection(501, "transport.method-unknown", message, hint=hint)
