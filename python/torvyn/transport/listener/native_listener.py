"""The native wire on the loop of the application: the same thread reads, answers and writes.

The wire waits for all of its sockets with one descriptor, which the loop watches. A chunk that is
appended is written in the same call, so a token crosses no thread.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import TYPE_CHECKING, Any, Final

from torvyn._native import WireExchange, WireServer
from torvyn.concurrency.earliest_timer import EarliestTimer
from torvyn.transport.http.body_limit import MAX_BODIES
from torvyn.transport.http.native_exchange import NativeExchange

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
        self, application: Application, sock: socket.socket, certificate: Certificate | None
    ) -> None:
        self._application = application
        self._exchanges: dict[int, NativeExchange] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._warned_at_s = -_WARN_S
        pem = None if certificate is None else certificate.read()
        self._wire = WireServer(sock.detach(), **_options(application.settings), tls=pem)

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._timer = EarliestTimer(self._loop, self._turn)
        self._failed: asyncio.Future[None] = self._loop.create_future()
        self._loop.add_reader(self._wire.fileno(), self._turn)
        self._turn()

    def stop_accepting(self) -> None:
        self._wire.stop()

    async def stop(self, grace_s: float) -> None:
        self._wire.stop()
        end_s = self._loop.time() + grace_s
        while self._wire.connections and self._loop.time() < end_s:
            await asyncio.sleep(_STOP_S)
        self._loop.remove_reader(self._wire.fileno())
        self._wire.close()
        self._turn()
        self._timer.close()

    async def wait_failed(self) -> None:
        """Raises when the wire fails as a whole."""
        await asyncio.shield(self._failed)

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
        exchange = NativeExchange(native, self._application.sample_rate)
        self._exchanges[native.id] = exchange
        task = self._loop.create_task(self._handle(native.id, exchange))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _handle(self, number: int, exchange: NativeExchange) -> None:
        try:
            await self._application.http.handle(exchange)
        finally:
            del self._exchanges[number]
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
    connections = max(1024, 2 * settings.max_streams)
    return {
        "max_body_bytes": settings.max_body_bytes,
        "max_bodies_bytes": MAX_BODIES * settings.max_body_bytes,
        "body_timeout_s": settings.body_timeout_s,
        "head_timeout_s": settings.head_timeout_s,
        "keep_alive_s": settings.keep_alive_s,
        "max_connections": connections,
        "max_connections_per_address": connections,
        "max_streams": max(128, settings.max_streams),
    }
