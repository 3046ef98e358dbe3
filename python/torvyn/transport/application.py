"""The application: wires the parts of a server together, behind ASGI.

You can serve it (`torvyn.transport.serve`) or mount it in another ASGI program.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping

from torvyn._link.plan import Plan
from torvyn._observe.metrics import Metric
from torvyn._observe.spans import Tracer
from torvyn.engine.service.service import Service
from torvyn.errors import TorvynError
from torvyn.transport.access.admission import Admission
from torvyn.transport.access.authentication import Authenticator
from torvyn.transport.access.cors import Cors
from torvyn.transport.access.host_check import HostCheck
from torvyn.transport.call import Call
from torvyn.transport.dispatch.dispatcher import Dispatcher
from torvyn.transport.dispatch.running_calls import RunningCalls
from torvyn.transport.dispatch.service_table import ServiceTable
from torvyn.transport.grpc.endpoint import GrpcEndpoint
from torvyn.transport.http.asgi_exchange import AsgiExchange, Receive, Scope, Send
from torvyn.transport.http.body_limit import BodyBudget
from torvyn.transport.http.endpoint import HttpEndpoint
from torvyn.transport.http.inference_routes import InferenceRoutes
from torvyn.transport.http.pool_routes import PoolRoutes, pools_of
from torvyn.transport.http.routes import NoRoutes, Router
from torvyn.transport.http.server_routes import ServerRoutes
from torvyn.transport.http.stream_routes import StreamRoutes
from torvyn.transport.rejection import ErrorReporter
from torvyn.transport.services import adopt_plans
from torvyn.transport.sessions.registry import SessionRegistry
from torvyn.transport.settings import ServerSettings
from torvyn.transport.telemetry.call_reports import CallReports
from torvyn.transport.telemetry.exported_metrics import exported_metrics
from torvyn.transport.telemetry.instances import Instances
from torvyn.transport.telemetry.metrics import Metrics
from torvyn.transport.telemetry.pool_metrics import pool_metrics
from torvyn.transport.telemetry.request_log import RequestLog
from torvyn.transport.websocket.asgi_socket import AsgiSocket
from torvyn.transport.websocket.endpoint import WebSocketEndpoint

logger = logging.getLogger("torvyn.transport")


def last_moments_s(grace_s: float) -> float:
    """How long answers that were ended at the end of the grace may take to say so."""
    return min(1.0, grace_s / 4)


def app(
    services: Mapping[str, Service],
    settings: ServerSettings | None = None,
    tracer: Tracer | None = None,
) -> Application:
    """The ASGI application that answers with these services, by the names that clients use."""
    return Application(services, settings or ServerSettings(), tracer)


class Application:
    """One per process: its limits apply to all of its connections together."""

    def __init__(
        self,
        services: Mapping[str, Service],
        settings: ServerSettings,
        tracer: Tracer | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`clock` measures the limits of API keys."""
        self.settings = settings
        self.services = ServiceTable(services)
        self.tracer = tracer
        share = settings.share
        labels = {} if share.is_whole else {"worker": str(share.worker)}
        self.metrics = Metrics(self.services, labels)
        self.authenticator = Authenticator(settings, clock)
        self.admission = Admission(settings.max_streams, settings.admission_wait_s)
        self.request_log = RequestLog(self.metrics)
        self.connection_metrics: Callable[[], dict[str, int]] = dict
        """From the listener, if it counts connections."""
        self.link_flows: Callable[[], Mapping[str, Plan]] | None = None
        """Links the served flows anew; None if they come from no manifest."""
        self._opened = services
        calls: dict[str, Call] = {}
        self.instances = Instances(calls, self.services)
        audit = self.authenticator.audit
        reports = CallReports(self.metrics, audit, self.instances, self.services, tracer)
        self.running = RunningCalls(calls, self.authenticator, reports)
        access = (self.services, self.authenticator, self.admission, self.running)
        self.sessions = SessionRegistry(settings, *access)
        self.dispatcher = Dispatcher(
            settings, *access, self.sessions, ErrorReporter(settings.secrets)
        )
        if tracer is not None:
            tracer.exporter.collect(self._exported_metrics)
        self.sample_rate = tracer.sample_rate if tracer is not None else 0.0
        cors = Cors(settings.cors, self.authenticator.has_keys)
        host_check = HostCheck(settings.hosts, settings.host, cors)
        entry = (host_check, self.authenticator, self.request_log, self.sample_rate)
        self.router = self._routes()
        self.http = HttpEndpoint(self.router, self.dispatcher.errors, *entry[:3])
        self.http_at_grpc_port = HttpEndpoint(NoRoutes(), self.dispatcher.errors, *entry[:3])
        self.websocket = WebSocketEndpoint(self.dispatcher, *entry)
        self.grpc = GrpcEndpoint(self.dispatcher, *entry[1:])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self.http.handle(AsgiExchange(scope, receive, send, self.sample_rate))
        elif scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "websocket":
            limit_bytes = self.settings.max_body_bytes
            await self.websocket.handle(AsgiSocket(scope, receive, send, limit_bytes))

    def reload_flows(self) -> list[str]:
        """New answers go through the flows as their files are now; returns their names. Raises, and
        keeps what it has, if that is not possible."""
        if self.link_flows is None:
            return []
        plans = self.link_flows()
        self.adopt_flows(plans)
        return sorted(plans)

    def adopt_flows(self, plans: Mapping[str, Plan]) -> None:
        """New answers go through these flows. Raises, and keeps what it has, if they have other
        names or other engines."""
        adopt_plans(self._opened, plans)

    async def start(self) -> None:
        """Connects to the broker of the sessions, and loads what answers need, so that the first
        one is no slower than others. Raises if the broker cannot be used."""
        for service in self.services.values():
            service.prepare()
        await self.sessions.connect()

    async def drain(self, grace_s: float | None = None) -> None:
        """Accepts no more requests, and gives what runs that time to end. What still runs then
        is ended, which takes a moment more."""
        self.running.drain()
        grace_s = self.settings.shutdown_grace_s if grace_s is None else grace_s
        if await self.running.wait_idle(grace_s):
            self.end_calls()
            if left := await self.running.wait_idle(last_moments_s(grace_s)):
                logger.warning("%d answers did not end in time", left)
        await self.sessions.aclose()

    def end_calls(self) -> None:
        """Ends everything that runs, and tells its clients that the server is shutting down."""
        self.sessions.suspend()
        self.running.fail_all()

    async def aclose(self, grace_s: float | None = None) -> None:
        """Drains, then closes the engines and sends the last spans."""
        await self.drain(grace_s)
        for engine in {service.engine for service in self.services.values()}:
            await engine.aclose()
        if self.tracer is not None:
            await asyncio.to_thread(self.tracer.close)

    @contextlib.asynccontextmanager
    async def lifespan(self, outer: object = None) -> AsyncIterator[None]:
        """For the program that mounts it, since mounted applications get no lifespan events:
        `FastAPI(lifespan=application.lifespan)`."""
        try:
            await self.start()
            yield
        finally:
            await self.aclose()

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.shutdown":
                await self.aclose()
                await send({"type": "lifespan.shutdown.complete"})
                return
            try:
                await self.start()
            except TorvynError as error:
                await send({"type": "lifespan.startup.failed", "message": str(error)})
                return
            await send({"type": "lifespan.startup.complete"})

    def _routes(self) -> Router:
        bodies = BodyBudget(self.settings.max_body_bytes)
        return Router(
            InferenceRoutes(self.dispatcher, bodies),
            StreamRoutes(self.dispatcher, self.sessions),
            ServerRoutes(
                self.services,
                self.running,
                self.metrics,
                self.instances,
                self._server_metrics,
                self.authenticator.has_keys,
            ),
            PoolRoutes(self.services, self.settings, bodies),
        )

    def _exported_metrics(self) -> list[Metric]:
        pools = dict(pools_of(self.services))
        server = exported_metrics(self.metrics, self._server_metrics())
        return [*server, *pool_metrics(pools)]

    def _server_metrics(self) -> dict[str, int]:
        values = {
            "torvyn_waiting": self.admission.waiting,
            "torvyn_refused_total": self.admission.rejected,
            "torvyn_sessions": len(self.sessions),
            "torvyn_resumes_total": self.sessions.resumed,
            **self.connection_metrics(),
        }
        if self.tracer is not None:
            values["torvyn_spans_total"] = self.tracer.exporter.sent
            values["torvyn_spans_dropped_total"] = self.tracer.exporter.dropped
        return values
