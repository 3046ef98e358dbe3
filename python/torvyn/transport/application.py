"""The application: ASGI in, answers out. No framework, and no state besides what runs.

It can be served (`torvyn.transport.serve`) or mounted in another ASGI program.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import Any, Final

from torvyn.engine.service.service import Service
from torvyn.errors import TorvynError
from torvyn.observe.logs import Redactor
from torvyn.observe.spans import Tracer
from torvyn.protocol import traceparent
from torvyn.transport import request_body
from torvyn.transport.access.admission import Admission
from torvyn.transport.access.authentication import Authenticator, priority
from torvyn.transport.access.caller import Caller
from torvyn.transport.access.host_check import HostCheck
from torvyn.transport.answer_stream import Stream
from torvyn.transport.call import Call
from torvyn.transport.http import routes
from torvyn.transport.http.body_limit import BodyBudget
from torvyn.transport.http.exchange import ClientDisconnected, HttpExchange, Receive, Scope, Send
from torvyn.transport.multiplex.open_channels import OpenChannels
from torvyn.transport.rejection import (
    Rejection,
    client_error,
    log_failure,
    openai_error_body,
    shutting_down,
    status_of,
    torvyn_error_body,
    unknown_stream,
)
from torvyn.transport.request_body import InferenceRequest
from torvyn.transport.sessions.registry import SessionRegistry
from torvyn.transport.sessions.subscriber import SessionClient, Subscriber
from torvyn.transport.settings import ServerSettings
from torvyn.transport.telemetry.instances import Instances
from torvyn.transport.telemetry.metrics import Metrics
from torvyn.transport.telemetry.request_log import log_request, log_stream
from torvyn.transport.telemetry.tracing import tell
from torvyn.transport.websocket import endpoint
from torvyn.transport.whole_answer import Whole
from torvyn.transport.wire import Wire

logger = logging.getLogger("torvyn.transport")

_OURS: Final = ("/v1/streams", endpoint.PATH)
_METHODS: Final = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})


def app(
    services: Mapping[str, Service],
    settings: ServerSettings | None = None,
    tracer: Tracer | None = None,
) -> Application:
    """The ASGI application that answers with these services, by the names that clients use."""
    return Application(services, settings or ServerSettings(), tracer)


class Application:
    """One for a process: its limits hold for all of its connections together."""

    def __init__(
        self,
        services: Mapping[str, Service],
        settings: ServerSettings,
        tracer: Tracer | None = None,
    ) -> None:
        self.services = dict(services)
        self.settings = settings
        self.tracer = tracer
        self.sample_rate = tracer.sample_rate if tracer is not None else 0.0
        self.calls: dict[str, Call] = {}
        self.held = OpenChannels(self._begin, self._end)
        self.meter = Metrics(self.services)
        self.instances = Instances(self.calls, self.services)
        self.is_draining = False
        self.created = int(time.time())
        self.access = Authenticator(settings)
        self.gate = HostCheck(settings.hosts, settings.host)
        self.bodies = BodyBudget(settings.max_body_bytes)
        self.admission = Admission(settings.max_streams, settings.admission_wait_s)
        self._readers: set[Subscriber] = set()
        self._busy = 0
        self._is_idle = asyncio.Event()
        self._is_idle.set()
        self._redactor = Redactor(settings.secrets)
        self.sessions = SessionRegistry(self)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._http(HttpExchange(scope, receive, send, self.sample_rate))
        elif scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "websocket":
            await endpoint.converse(self, scope, receive, send)

    async def drain(self, grace_s: float | None = None) -> None:
        """Takes no more requests; what runs has most of that time to end by itself."""
        self.is_draining = True
        self.held.drain()
        grace_s = self.settings.shutdown_grace_s if grace_s is None else grace_s
        last_s = min(1.0, grace_s / 4)
        try:
            await asyncio.wait_for(self._is_idle.wait(), grace_s - last_s)
        except TimeoutError:
            self.end_calls()
            try:
                await asyncio.wait_for(self._is_idle.wait(), last_s)
            except TimeoutError:
                logger.warning("%d answers did not end in time", self._busy)
        self.sessions.close()

    async def aclose(self, grace_s: float | None = None) -> None:
        """Drains, then closes the engines and sends what is still to be told."""
        await self.drain(grace_s)
        for engine in {service.engine for service in self.services.values()}:
            await engine.aclose()
        if self.tracer is not None:
            await asyncio.to_thread(self.tracer.close)

    @contextlib.asynccontextmanager
    async def lifespan(self, outer: object = None) -> AsyncIterator[None]:
        """For the program that it is mounted in, which alone is told of its end:
        `FastAPI(lifespan=application.lifespan)`."""
        try:
            yield
        finally:
            await self.aclose()

    def end_calls(self) -> None:
        """Tells the clients of all that runs that it ends here."""
        self.sessions.suspend()
        for call in list(self.calls.values()):
            call.fail(shutting_down())
        self.held.hurry()

    def identify(self, headers: Mapping[str, str], **where: Any) -> Caller:
        """Who asks, whatever the transport; raises the rejection."""
        return self.access.identify(headers, **where)

    # One request

    async def _http(self, exchange: HttpExchange) -> None:
        began_s = time.perf_counter()
        route = "unknown"
        before = traceparent.CURRENT.set(exchange.trace)
        try:
            self.gate.check(exchange.headers)
            if not routes.is_open(exchange.path):
                exchange.caller = self.identify(
                    exchange.headers, request_id=exchange.id, peer=exchange.peer
                )
            route, handler = routes.find(exchange)
            await handler(self, exchange)
        except ClientDisconnected:
            return
        except Exception as error:
            await self._refuse(exchange, error)
        finally:
            traceparent.CURRENT.reset(before)
            # Whoever asks chooses the word: only those that mean something are counted apart.
            method = exchange.method if exchange.method in _METHODS else "other"
            self.meter.requests[method, route, exchange.status] += 1
        log_request(
            method,
            route,
            exchange.status,
            time.perf_counter() - began_s,
            request_id=exchange.id,
            trace_id=exchange.trace.trace_id,
            peer=exchange.peer,
            summary=exchange.summary,
        )

    async def _refuse(self, exchange: HttpExchange, raised: Exception) -> None:
        error, words = self.explained(raised, exchange.id)
        if exchange.status:
            return
        is_openai = exchange.path.startswith("/v1/") and not exchange.path.startswith(_OURS)
        body = (openai_error_body if is_openai else torvyn_error_body)(error, words)
        headers = error.headers if isinstance(error, Rejection) else {}
        await exchange.answer(body, status_of(error), headers=headers)

    def explained(self, raised: Exception, request_id: str) -> tuple[TorvynError, str]:
        """What a client is told, and in which words; the log is told what is our own mistake."""
        error = client_error(raised)
        log_failure(error, raised, request_id)
        return error, self._redactor.text(error.message)

    # Answers of flows

    async def answer(self, wire: Wire, request: InferenceRequest) -> None:
        """Answers over that wire; a rejection is raised before anything was sent."""
        if self.is_draining:
            raise shutting_down()
        rank = priority(wire.caller, request.options.get("priority"))
        if rank is not None:
            request = replace(request, options={**request.options, "priority": rank})
        name, service = self.service(request.flow)
        request = request_body.resolve_unknown(request, takes_extra=service.engine.takes_extra)
        if request.is_stateful:
            session = await self.sessions.start(request, wire.request_id, wire.caller, wire.peer)
            await self._read(SessionClient(session, wire, self.settings, 1))
            return
        # Made before it waits for a place: its clock starts when the request was received.
        generation = service.generate(request.input, **request.options)
        make = Stream if request.is_streamed else Whole
        # `admitted`, spelled out: its generator would lie with every stream that waits.
        with self.access.enter(wire.caller):
            async with self.admission.of(generation.request.priority):
                await self.attend(make(wire, request, name, service, generation, self.settings))

    @contextlib.asynccontextmanager
    async def admitted(self, caller: Caller, rank: str) -> AsyncIterator[None]:
        """A place among the answers that are made, within the limits of the caller's key."""
        with self.access.enter(caller):
            async with self.admission.of(rank):
                yield

    async def resume(self, wire: Wire, id: str, after: str | None) -> None:
        """What a session still has for a client that has all up to `after`."""
        self.access.check(wire.caller)
        session = await self.sessions.find(id, wire.caller)
        place = session.place(after)
        self.sessions.resumed += 1
        await self._read(SessionClient(session, wire, self.settings, place))

    async def observe(self, wire: Wire, id: str) -> None:
        """What happens in a stream of the caller's tenant. Whoever watches changes nothing."""
        self.access.check(wire.caller)
        session = self.sessions.get(id, wire.caller)
        call = self.call(id, wire.caller)
        if session is not None:
            buffer, epoch = session.buffer, session.epoch
        elif isinstance(call, Stream):
            buffer, epoch = call.tap.buffer, call.tap.epoch
        else:
            raise unknown_stream()
        await self._read(Subscriber(buffer, epoch, wire, self.settings, buffer.first))

    def call(self, id: str, caller: Caller) -> Call | None:
        """What runs under that id, if it is the caller's."""
        call = self.calls.get(id)
        return call if call is not None and call.wire.caller.tenant == caller.tenant else None

    async def attend(self, call: Call) -> None:
        self.meter.flows[call.flow].streams += 1
        self.calls[call.id] = call
        self._begin()
        self.access.audit.started(call)
        call.pace = self.access.limits.pace(call.wire.caller)
        try:
            # In a task of its own: a token that wakes it does not climb through all of the above.
            await asyncio.create_task(self._run(call))
        finally:
            self._was_run(call)  # if its task was cancelled before it began

    async def _run(self, call: Call) -> None:
        try:
            await call.run()
        except Exception as error:
            call.failure = call.failure or client_error(error)
            raise
        finally:
            self._was_run(call)

    def _was_run(self, call: Call) -> None:
        if self.calls.get(call.id) is not call:
            return
        del self.calls[call.id]
        meter = self.meter.flows[call.flow]
        meter.streams -= 1
        meter.ended(call)
        self.access.audit.ended(call)
        summary = self.instances.ended(call)
        if not call.wire.keep(summary):
            log_stream(summary, call.trace.trace_id)
        if self.tracer is not None:
            tell(self.tracer, call, self.services[call.flow].engine.name)
        self._end()

    async def _read(self, reader: Subscriber) -> None:
        self._begin()
        self._readers.add(reader)
        try:
            await reader.run()
        finally:
            self._readers.discard(reader)
            self._end()

    def _begin(self) -> None:
        self._busy += 1
        self._is_idle.clear()
        self.access.watch(self.calls, self._readers, self.held)

    def _end(self) -> None:
        self._busy -= 1
        if not self._busy:
            self._is_idle.set()

    def service(self, name: str | None) -> tuple[str, Service]:
        """The service that clients call so; without a name, the only one."""
        if name is None and len(self.services) == 1:
            return next(iter(self.services.items()))
        if name is None:
            raise request_body.invalid("the request names no flow", f"there are {self._names()}")
        if name not in self.services:
            message = f"there is no flow {name[:100]!r}"
            hint = f"there are {self._names()}"
            raise Rejection(404, "transport.flow-unknown", message, hint=hint)
        return name, self.services[name]

    def _names(self) -> str:
        return ", ".join(f"`{name}`" for name in self.services)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.shutdown":
                await self.aclose()
                await send({"type": "lifespan.shutdown.complete"})
                return
            await send({"type": "lifespan.startup.complete"})
