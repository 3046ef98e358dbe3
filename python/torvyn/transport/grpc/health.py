"""`grpc.health.v1.Health`: whether the server accepts requests."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from grpc_health.v1 import health_pb2 as pb

from torvyn.transport.grpc.messages import decode
from torvyn.transport.rejection import service_unknown

if TYPE_CHECKING:
    from torvyn.transport.dispatch.running_calls import RunningCalls
    from torvyn.transport.grpc.exchange import GrpcExchange

SERVICE: Final = "grpc.health.v1.Health"
_Status: Final = pb.HealthCheckResponse
HAS_LIST: Final = hasattr(pb, "HealthListResponse")
"""Older versions of `grpcio-health-checking` do not know the method."""


class Health:
    def __init__(self, names: tuple[str, ...], running: RunningCalls) -> None:
        self._names = names
        self._running = running
        self._drains = asyncio.Event()

    def drain(self) -> None:
        self._drains.set()

    async def check(self, exchange: GrpcExchange) -> None:
        name = await _name(exchange)
        if name not in self._names:
            raise service_unknown(name)
        exchange.begin_call()
        self._post(exchange, self._status())

    async def list_all(self, exchange: GrpcExchange) -> None:
        """The status of every service."""
        await exchange.read_one()
        exchange.begin_call()
        status = pb.HealthCheckResponse(status=self._status())
        statuses = dict.fromkeys(self._names, status)
        exchange.post_messages([pb.HealthListResponse(statuses=statuses).SerializeToString()])

    async def watch(self, exchange: GrpcExchange) -> None:
        """The status, and again when it changes."""
        name = await _name(exchange)
        exchange.begin_call()
        if name not in self._names:
            self._post(exchange, _Status.SERVICE_UNKNOWN)
        else:
            status = self._status()
            self._post(exchange, status)
            if status == _Status.SERVING:
                await self._drains.wait()
                self._post(exchange, _Status.NOT_SERVING)
        await exchange.until_left()

    def _status(self) -> Any:
        is_draining = self._running.is_draining or self._drains.is_set()
        return _Status.NOT_SERVING if is_draining else _Status.SERVING

    def _post(self, exchange: GrpcExchange, status: Any) -> None:
        # A message of two bytes: nothing to wait for.
        exchange.post_messages([pb.HealthCheckResponse(status=status).SerializeToString()])


async def _name(exchange: GrpcExchange) -> str:
    request = decode(pb.HealthCheckRequest, await exchange.read_one())
    return str(request.service)
