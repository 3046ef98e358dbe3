"""Routes about the server itself: models, flows, metrics, health, the OpenAPI document."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from torvyn.transport.http.pool_routes import pools_of
from torvyn.transport.rejection import unknown_flow
from torvyn.transport.telemetry.pool_metrics import pool_metrics

if TYPE_CHECKING:
    from torvyn.transport.dispatch.running_calls import RunningCalls
    from torvyn.transport.dispatch.service_table import ServiceTable
    from torvyn.transport.http.exchange import HttpExchange
    from torvyn.transport.telemetry.instances import Instances
    from torvyn.transport.telemetry.metrics import Metrics

MODEL: Final = "/v1/models/"
FLOW: Final = "/flows/"
_PROMETHEUS: Final = "text/plain; version=0.0.4; charset=utf-8"


class ServerRoutes:
    def __init__(
        self,
        services: ServiceTable,
        running: RunningCalls,
        metrics: Metrics,
        instances: Instances,
        server_metrics: Callable[[], Mapping[str, int]],
        has_keys: bool,
    ) -> None:
        self._services = services
        self._running = running
        self._metrics = metrics
        self._instances = instances
        self._server_metrics = server_metrics
        self._has_keys = has_keys
        self._created = int(time.time())

    async def models(self, exchange: HttpExchange) -> None:
        data = [self._model(name) for name in self._services]
        await exchange.answer({"object": "list", "data": data})

    async def model(self, exchange: HttpExchange) -> None:
        name, _ = self._services.find(exchange.path.removeprefix(MODEL))
        await exchange.answer(self._model(name))

    def _model(self, name: str) -> dict[str, Any]:
        return {"id": name, "object": "model", "created": self._created, "owned_by": "torvyn"}

    async def health(self, exchange: HttpExchange) -> None:
        await exchange.answer({"status": "ok"})

    async def ready(self, exchange: HttpExchange) -> None:
        is_draining = self._running.is_draining
        status, word = (503, "shutting down") if is_draining else (200, "ready")
        await exchange.answer({"status": word}, status)

    async def flows(self, exchange: HttpExchange) -> None:
        """The counters of each flow, and the answers of all callers."""
        flows = [
            {"name": name, **self._metrics.flows[name].to_dict(), **service.engine.describe()}
            for name, service in self._services.items()
        ]
        streams = [stream async for stream in self._instances.running(exchange.caller)]
        ended = list(self._instances.recent(exchange.caller))
        await exchange.answer({"flows": flows, "streams": streams, "ended": ended})

    async def flow(self, exchange: HttpExchange) -> None:
        """One answer that runs or ended recently, with the accounts of its flows."""
        instance = self._instances.find(exchange.path.removeprefix(FLOW), exchange.caller)
        if instance is None:
            raise unknown_flow()
        await exchange.answer(instance)

    async def metrics(self, exchange: HttpExchange) -> None:
        pools = pool_metrics(dict(pools_of(self._services)))
        text = self._metrics.prometheus(self._server_metrics(), pools)
        await exchange.answer(text, kind=_PROMETHEUS)

    async def openapi(self, exchange: HttpExchange) -> None:
        from torvyn.transport.http.openapi import document

        await exchange.answer(document(list(self._services), exchange.root, self._has_keys))
