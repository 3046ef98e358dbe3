"""The native wire on the loop of the application: the same thread reads, answers and writes.

The wire waits for all of its sockets with one descriptor, which the loop watches. A chunk that is
appended is written in the same call, so a token crosses no thread.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Final

from torvyn._io.event_loop import EarliestTimer
from torvyn._native import WireExchange, WireServer
from torvyn.errors import UsageError
from torvyn.transport.grpc.exchange import GrpcExchange
from torvyn.transport.http.body_limit import MAX_BODIES
from torvyn.transport.http.native_exchange import NativeExchange
from torvyn.transport.websocket.native_socket import NativeSocket

if TYPE_CHECKING:
    from torvyn.transport.application import Application
    from torvyn.transport.listener.tls import Certificate
    from torvyn.transport.settings import ServerSettings

logger = logging.getLogger("torvyn.transport")

_ROOM, _HALF_CLOSED, _LEFT, _ACCEPT_FAILED, _MESSAGE = range(5)
_STOP_S: Final = 0.02
"""How often it looks whether the last connection has ended."""
_WARN_S: Final = 10.0
"""The shortest time between two warnings that connections cannot be accepted."""


class NativeListener:
    def __init__(
        self,
        application: Application,
        sock: socket.socket,
        certificate: Certificate | None,
        *,
        is_for_grpc: bool = False,
    ) -> None:
        """`is_for_grpc`: it serves gRPC only, beside another one."""
        self._application = application
        self._is_for_grpc = is_for_grpc
        self._http = application.http_at_grpc_port if is_for_grpc else application.http
        self._exchanges: dict[int, NativeExchange] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._warned_at_s = -_WARN_S
        pem = None if certificate is None else certificate.read()
        self._wire = WireServer(sock.detach(), **_options(application.settings), tls=pem)

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._timer = EarliestTimer(self._loop, self._turn)
        self._failed: asyncio.Future[None] = self._loop.create_future()
        self._loop.add_reader(self._wire.fileno(), self._turn)
        self._turn()

    def drain(self, *, has_successor: bool) -> None:
        self._wire.drain()
        if has_successor:
            self._wire.stop_accepting()

    def use_certificate(self, certificate: Certificate) -> None:
        """For connections from now on."""
        try:
            self._wire.set_tls(*certificate.read())
        except (OSError, ValueError) as error:
            raise UsageError("transport.tls-unusable", f"cannot use it: {error}") from error

    async def stop(self, grace_s: float) -> None:
        self._wire.stop()
        end_s = self._loop.time() + grace_s
        while self._wire.counts()[0] and self._loop.time() < end_s:
            await asyncio.sleep(_STOP_S)
        self._loop.remove_reader(self._wire.fileno())
        self._wire.close()
        self._turn()
        self._timer.close()

    async def wait_failed(self) -> None:
        """Raises when the wire fails as a whole."""
        await asyncio.shield(self._failed)

    def counts(self) -> tuple[int, int, int, int]:
        """Connections that are open, that brought a valid key, that were closed to make room, that
        found no room."""
        return self._wire.counts()

    def _turn(self) -> None:
        try:
            events, due_s = self._wire.turn()
        except OSError as error:
            if not self._failed.done():
                self._failed.set_exception(error)
            return
        if due_s is not None:
            self._timer.arm(self._loop.time() + due_s)
        for event in events:
            if isinstance(event, WireExchange):
                self._begin(event)
            else:
                self._tell(*event)

    def _begin(self, native: WireExchange) -> None:
        application = self._application
        exchange: NativeExchange
        if native.is_websocket and not self._is_for_grpc:
            # Its streams are traced one by one.
            exchange = NativeExchange(native)
            handling = application.websocket.handle(NativeSocket(exchange))
        elif native.is_call:
            exchange = GrpcExchange(native, application.settings, application.sample_rate)
            handling = application.grpc.handle(exchange)
        else:
            exchange = NativeExchange(native, application.sample_rate)
            handling = self._http.handle(exchange)
        self._exchanges[native.id] = exchange
        handled = self._handle(native.id, exchange, handling)
        self._tasks[native.id] = self._loop.create_task(handled)

    async def _handle(
        self, number: int, exchange: NativeExchange, handling: Coroutine[Any, Any, None]
    ) -> None:
        try:
            await handling
        finally:
            del self._exchanges[number], self._tasks[number]
            exchange.end()

    def _tell(self, kind: int, about: int | str) -> None:
        if kind == _ACCEPT_FAILED:
            self._warn(str(about))
            return
        exchange = self._exchanges.get(int(about))
        if exchange is None:
            return
        if kind == _ROOM:
            exchange.has_room()
        elif kind == _MESSAGE:
            exchange.has_message()
        elif kind == _HALF_CLOSED:
            exchange.half_close()
        elif kind == _LEFT:
            exchange.leave()

    def _warn(self, reason: str) -> None:
        now_s = self._loop.time()
        if now_s - self._warned_at_s >= _WARN_S:
            self._warned_at_s = now_s
            logger.warning("connections cannot be accepted at the moment: %s", reason)


def _options(settings: ServerSettings) -> dict[str, Any]:
    return {
        "max_body_bytes": settings.max_body_bytes,
        "max_bodies_bytes": MAX_BODIES * settings.max_body_bytes,
        "body_timeout_s": settings.body_timeout_s,
        "head_timeout_s": settings.head_timeout_s,
        "keep_alive_s": settings.keep_alive_s,
        **_connection_limits(settings),
        "max_streams": max(128, settings.max_streams),
    }


def _connection_limits(settings: ServerSettings) -> dict[str, Any]:
    total = settings.max_connections or max(1024, 2 * settings.max_streams)
    has_keys = bool(settings.keys)
    reserved = 0
    if has_keys:
        given = settings.reserved_connections
        reserved = total // 4 if given is None else min(given, total - 1)
    return {
        "max_connections": total,
        "max_unknown": total - reserved,
        "max_unknown_per_address": settings.max_connections_per_address or (total + 1) // 2,
        "has_keys": has_keys,
    }
