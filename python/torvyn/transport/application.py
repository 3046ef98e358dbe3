"""The application: ASGI in, answers out. No framework, and no state besides what runs.

It can be served (`torvyn.transport.serve`) or mounted in another ASGI program.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from torvyn.engine.service import Service
from torvyn.observe.logs import Redactor
from torvyn.protocol.encoder import Framing
from torvyn.transport import asked
from torvyn.transport.admission import Admission
from torvyn.transport.asked import Asked
from torvyn.transport.call import Call
from torvyn.transport.exchange import Exchange, Left, Receive, Scope, Send
from torvyn.transport.gate import Gate
from torvyn.transport.meter import Meter
from torvyn.transport.refusal import (
    Refusal,
    openai_body,
    own_body,
    shutting_down,
    status_of,
    told,
)
from torvyn.transport.settings import Settings
from torvyn.transport.stream import Stream
from torvyn.transport.whole import Whole

logger = logging.getLogger("torvyn.transport")

Handler = Callable[["Application", Exchange], Awaitable[None]]
_LINES: Final = ("application/x-ndjson", "application/jsonl")
_STREAM: Final = "/v1/streams/"
_MODEL: Final = "/v1/models/"


def app(services: Mapping[str, Service], settings: Settings | None = None) -> Application:
    """The ASGI application that answers with these services, by the names that clients use."""
    return Application(services, settings or Settings())


class Application:
    """One for a process: its limits hold for all of its connections together."""

    def __init__(self, services: Mapping[str, Service], settings: Settings) -> None:
        self.services = dict(services)
        self.settings = settings
        self.calls: dict[str, Call] = {}
        self.meter = Meter(self.services)
        self.is_draining = False
        self.created = int(time.time())
        self._gate = Gate(settings.hosts, settings.host)
        self._admission = Admission(settings.max_streams, settings.admission_wait_s)
        self._is_idle = asyncio.Event()
        self._is_idle.set()
        self._redactor = Redactor(settings.secrets)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._http(Exchange(scope, receive, send))
        elif scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1000})

    async def drain(self, grace_s: float | None = None) -> None:
        """Takes no more requests; what runs may end by itself for most of the time it has, then
        its clients are told."""
        self.is_draining = True
        grace_s = self.settings.shutdown_grace_s if grace_s is None else grace_s
        last_s = min(1.0, grace_s / 4)
        try:
            await asyncio.wait_for(self._is_idle.wait(), grace_s - last_s)
        except TimeoutError:
            self.end_calls()
            try:
                await asyncio.wait_for(self._is_idle.wait(), last_s)
            except TimeoutError:
                logger.warning("%d answers did not end in time", len(self.calls))

    def end_calls(self) -> None:
        """Tells the clients of all that runs that it ends here."""
        for call in list(self.calls.values()):
            call.fail(shutting_down())

    # One request

    async def _http(self, exchange: Exchange) -> None:
        began_s = time.perf_counter()
        route = "unknown"
        try:
            self._gate.check(exchange.headers)
            route, handler = self._route(exchange)
            await handler(self, exchange)
        except type(Left):
            return
        except Exception as error:
            await self._refuse(exchange, error)
        finally:
            self.meter.requests[exchange.method, route, exchange.status] += 1
        took_ms = (time.perf_counter() - began_s) * 1000
        fields = {"event": "request", "request_id": exchange.id, "status": exchange.status}
        words = (exchange.method, route, exchange.status, took_ms, exchange.id)
        logger.info("%s %s %d %.1f ms %s", *words, extra=fields)

    def _route(self, exchange: Exchange) -> tuple[str, Handler]:
        path = exchange.path
        if path.startswith(_STREAM):
            path = _STREAM + "{id}"
        elif path.startswith(_MODEL):
            path = _MODEL + "{name}"
        methods = ROUTES.get(path)
        if methods is None:
            message = f"there is no route {exchange.path[:100]!r}"
            hint = "`/openapi.json` lists them"
            raise Refusal(404, "transport.route-unknown", message, hint=hint)
        if exchange.method not in methods:
            allowed = ", ".join(methods)
            message = f"`{path}` takes {allowed}, not {exchange.method[:16]}"
            headers = {"allow": allowed}
            raise Refusal(405, "transport.method-refused", message, headers=headers)
        return path, methods[exchange.method]

    async def _refuse(self, exchange: Exchange, raised: Exception) -> None:
        error = told(raised)
        if error.__cause__ is raised:
            logger.exception("request %s failed", exchange.id, exc_info=raised)
        if exchange.status:
            return
        is_openai = exchange.path.startswith("/v1/") and not exchange.path.startswith("/v1/streams")
        body = (openai_body if is_openai else own_body)(error, self._redactor.text(error.message))
        headers = error.headers if isinstance(error, Refusal) else {}
        await exchange.answer(body, status_of(error), headers=headers)

    # Answers of flows

    async def _own(self, exchange: Exchange) -> None:
        await self._answer(exchange, asked.own(await exchange.body(self.settings)))

    async def _chat(self, exchange: Exchange) -> None:
        await self._answer(exchange, asked.chat(await exchange.body(self.settings)))

    async def _completions(self, exchange: Exchange) -> None:
        await self._answer(exchange, asked.completions(await exchange.body(self.settings)))

    async def _answer(self, exchange: Exchange, wanted: Asked) -> None:
        if self.is_draining:
            raise shutting_down()
        name, service = self.service(wanted.flow)
        # Made before it waits for a place: its clock starts when the request was received.
        generation = service.generate(wanted.what, **wanted.options)
        async with self._admission:
            call: Call
            if wanted.is_streamed:
                framing = _framing(wanted, exchange.headers.get("accept", ""))
                call = Stream(exchange, wanted, service, generation, self.settings, framing=framing)
            else:
                call = Whole(exchange, wanted, service, generation, self.settings)
            await self._attend(name, call)

    async def _attend(self, name: str, call: Call) -> None:
        call.flow = name
        meter = self.meter.flows[name]
        meter.streams += 1
        self.calls[call.id] = call
        self._is_idle.clear()
        try:
            await call.run()
        except Exception as error:
            call.failure = call.failure or told(error)
            raise
        finally:
            del self.calls[call.id]
            meter.streams -= 1
            meter.ended(call)
            if not self.calls:
                self._is_idle.set()

    def service(self, name: str | None) -> tuple[str, Service]:
        """The service that clients call so; without a name, the only one."""
        if name is None and len(self.services) == 1:
            return next(iter(self.services.items()))
        if name is None:
            raise asked.invalid("the request names no flow", f"there are {self._names()}")
        if name not in self.services:
            message = f"there is no flow {name[:100]!r}"
            hint = f"there are {self._names()}"
            raise Refusal(404, "transport.flow-unknown", message, hint=hint)
        return name, self.services[name]

    def _names(self) -> str:
        return ", ".join(f"`{name}`" for name in self.services)

    async def _stop(self, exchange: Exchange) -> None:
        call = self.calls.get(exchange.path.removeprefix(_STREAM))
        if call is None:
            message = "there is no stream of that id; it may have ended"
            raise Refusal(404, "transport.stream-unknown", message)
        call.stop()
        await exchange.answer({"id": call.id, "stopped": True}, 202)

    # About the server

    async def _models(self, exchange: Exchange) -> None:
        models = [self._model(name) for name in self.services]
        await exchange.answer({"object": "list", "data": models})

    async def _one_model(self, exchange: Exchange) -> None:
        name, _ = self.service(exchange.path.removeprefix(_MODEL))
        await exchange.answer(self._model(name))

    def _model(self, name: str) -> dict[str, Any]:
        return {"id": name, "object": "model", "created": self.created, "owned_by": "torvyn"}

    async def _health(self, exchange: Exchange) -> None:
        await exchange.answer({"status": "ok"})

    async def _ready(self, exchange: Exchange) -> None:
        status, word = (503, "shutting down") if self.is_draining else (200, "ready")
        await exchange.answer({"status": word}, status)

    async def _flows(self, exchange: Exchange) -> None:
        flows = [
            {"name": name, **self.meter.flows[name].to_dict(), **dict(service.engine.describe())}
            for name, service in self.services.items()
        ]
        streams = [
            # Who knows an id can stop its stream: only the beginning is shown.
            {"id": call.id[:8] + "...", "flow": call.flow, "dialect": call.asked.dialect}
            | call.generation.timing
            for call in self.calls.values()
        ]
        await exchange.answer({"flows": flows, "streams": streams})

    async def _metrics(self, exchange: Exchange) -> None:
        text = self.meter.prometheus(self._admission.waiting, self._admission.refused)
        await exchange.answer(text, kind="text/plain; version=0.0.4; charset=utf-8")

    async def _openapi(self, exchange: Exchange) -> None:
        from torvyn.transport.openapi import document

        await exchange.answer(document(list(self.services)))

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.shutdown":
                await self.drain()
                await send({"type": "lifespan.shutdown.complete"})
                return
            await send({"type": "lifespan.startup.complete"})


def _framing(wanted: Asked, accept: str) -> Framing:
    is_ours = wanted.dialect == "torvyn" and "text/event-stream" not in accept
    return "lines" if is_ours and any(kind in accept for kind in _LINES) else "sse"


ROUTES: Final[dict[str, dict[str, Handler]]] = {
    "/v1/streams": {"POST": Application._own},
    _STREAM + "{id}": {"DELETE": Application._stop},
    "/v1/chat/completions": {"POST": Application._chat},
    "/v1/completions": {"POST": Application._completions},
    "/v1/models": {"GET": Application._models},
    _MODEL + "{name}": {"GET": Application._one_model},
    "/flows": {"GET": Application._flows},
    "/metrics": {"GET": Application._metrics},
    "/healthz": {"GET": Application._health},
    "/readyz": {"GET": Application._ready},
    "/openapi.json": {"GET": Application._openapi},
}
