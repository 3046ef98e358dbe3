"""The server: the application on a socket, by granian, in this process.

Granian reads and writes HTTP/1.1 and HTTP/2 on a thread of its own; the application runs on the
loop that is here. Nothing forks, so engines may have been opened before. The socket is made here,
so that its buffers are small and a client that stopped reading is forgotten by the kernel too.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import importlib
import os
import socket
import sys
import threading
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from torvyn.concurrency.signals import SignalHandler
from torvyn.concurrency.thread_switching import shorten_switch_interval
from torvyn.errors import MissingError, UsageError
from torvyn.transport import tls
from torvyn.transport.application import Application
from torvyn.transport.http.idle_reaper import IdleReaper
from torvyn.transport.settings import KiB, ServerSettings
from torvyn.transport.systemd_notify import notify

if TYPE_CHECKING:
    from torvyn.transport.grpc.server import GrpcServer

BACKLOG: Final = 1024
_SEND_BYTES: Final = 16 * KiB
"""The kernel doubles it for its own account. Tokens are small and readers quick: what does not fit
is better held by the engine than by the socket."""
_HEADER_MS: Final = 10_000
_BUFFER_BYTES: Final = 32 * KiB
"""Of a connection: the largest head of a request, and what waits to be written."""
_LETTING_GO_MS: Final = 250
"""Granian's threads let go of their last objects a moment after its end. An interpreter that ends
meanwhile takes the process down with them. Other libraries may have threads too, which stay."""


def refuse_workers(count: int) -> None:
    """More than one process would each have their own streams and limits."""
    if count > 1:
        raise UsageError(
            "transport.one-worker",
            f"`--workers {count}`: a server is one process",
            hint="a stream lives in the process that makes it, and another could neither stop nor "
            "count it; run several servers on several ports behind a proxy",
        )


def listen(settings: ServerSettings) -> socket.socket:
    """The socket, listening. Connections inherit its options."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        limit(sock, settings)
        sock.bind((settings.host, settings.port))
        sock.listen(BACKLOG)
        sock.setblocking(False)
    except OSError as error:
        sock.close()
        reason = (error.strerror or str(error)).lower()
        raise MissingError(
            "transport.cannot-listen",
            f"cannot listen on {settings.host}:{settings.port}: {reason}",
            hint="`--port` names another port; 0 takes any that is free",
        ) from error
    return sock


def limit(sock: socket.socket, settings: ServerSettings) -> None:
    """Small buffers, and an end for peers that take nothing."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BYTES)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if sys.platform == "linux":
        user_timeout_ms = int(settings.write_timeout_s * 1000)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _SEND_BYTES)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, user_timeout_ms)


class Server:
    """`async with`: serves while it is entered."""

    def __init__(self, application: Application) -> None:
        self.application = application
        embed = _granian("granian.server.embed")
        secured = tls.options(application.settings)
        self._socket = listen(application.settings)
        host, port = self._socket.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        self.url = f"{'https' if secured else 'http'}://{shown}:{port}"
        self.port: int = port
        self._granian = embed.Server(application, **_options(application.settings), **secured)
        # The only way in for a socket of one's own.
        self._granian._init_shared_socket = self._hand_over
        self.grpc = _grpc(application)
        self._silent = IdleReaper(port, *(() if self.grpc is None else (self.grpc.port,)))

    async def __aenter__(self) -> Self:
        self._threads_before = _native_threads()
        self._serving = asyncio.ensure_future(self._granian.serve())
        if self.grpc is not None:
            await self.grpc.start()
        self._silent.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._silent.stop()
        if self.grpc is not None:
            await self.grpc.stop()
        self._granian.stop()
        grace_s = 0.1 if error is not None else self.application.settings.shutdown_grace_s
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._serving, grace_s)
        await self._let_go()

    def close_door(self) -> None:
        """No more connections; those that are there go on.

        Granian forgets connections that became WebSockets and would take them down: as long as
        there are any it stays, and the application refuses whoever comes."""
        self.application.held.when_none(self._granian.stop)
        if self.grpc is not None:
            self.grpc.close_door()

    async def until_broken(self) -> None:
        await asyncio.shield(self._serving)

    async def _let_go(self) -> None:
        for _ in range(_LETTING_GO_MS):
            if not _native_threads() - self._threads_before:
                return
            await asyncio.sleep(0.001)

    def _hand_over(self) -> None:
        holder = _granian("granian.net").SocketHolder
        self._granian._shd = holder(self._socket.detach(), False, BACKLOG)


def serve(
    application: Application, ready: Callable[[Server], None], told: Callable[[], None]
) -> int:
    """Serves until a signal ends it, whose number it gives. `ready` gets the server, which knows
    its addresses; `told` is called when the end begins."""
    shorten_switch_interval()
    # What is loaded by now stays: to look through it again and again would hold up every stream.
    gc.collect()
    gc.freeze()
    with asyncio.Runner(loop_factory=_quick_loop()) as runner:
        return runner.run(_serve(application, ready, told))


def _quick_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """A turn of uvloop's costs half as much; the loop of Python does as well."""
    try:
        make: Callable[[], asyncio.AbstractEventLoop] = importlib.import_module(
            "uvloop"
        ).new_event_loop
    except ModuleNotFoundError:
        return None
    return make


async def _serve(
    application: Application, ready: Callable[[Server], None], told: Callable[[], None]
) -> int:
    loop = asyncio.get_running_loop()
    caught: asyncio.Future[int] = loop.create_future()

    def on_signal(number: int) -> None:
        if not caught.done():
            caught.set_result(number)
            return
        application.end_calls()

    with SignalHandler(lambda number: loop.call_soon_threadsafe(on_signal, number), loop=loop):
        async with Server(application) as server:
            ready(server)
            notify("READY=1", f"STATUS=serving at {server.url}")
            broken = asyncio.ensure_future(server.until_broken())
            either: set[asyncio.Future[Any]] = {caught, broken}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if not caught.done():
                broken.result()
            told()
            notify("STOPPING=1", f"STATUS=ending {len(application.calls)} streams")
            server.close_door()
            await application.drain()
            broken.cancel()
    return caught.result()


def _native_threads() -> set[int]:
    """Those that Python does not know; none where that cannot be told."""
    try:
        threads = {int(name) for name in os.listdir("/proc/self/task")}
    except OSError:
        return set()
    return threads - {thread.native_id for thread in threading.enumerate()}


def _options(settings: ServerSettings) -> dict[str, Any]:
    http = _granian("granian.http")
    return {
        "address": settings.host,
        "port": settings.port,
        "interface": "asginl",
        "websockets": True,
        "log_enabled": False,
        "backlog": BACKLOG,
        "backpressure": max(BACKLOG, 2 * settings.max_streams),
        "http1_settings": http.HTTP1Settings(
            header_read_timeout=_HEADER_MS, max_buffer_size=_BUFFER_BYTES
        ),
        "http2_settings": http.HTTP2Settings(
            initial_connection_window_size=256 * KiB,
            initial_stream_window_size=64 * KiB,
            keep_alive_interval=20_000,
            max_headers_size=_BUFFER_BYTES,
            max_send_buffer_size=_BUFFER_BYTES,
        ),
    }


def _grpc(application: Application) -> GrpcServer | None:
    if application.settings.grpc_port is None:
        return None
    from torvyn.transport.grpc.server import GrpcServer

    return GrpcServer(application)


def _granian(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise MissingError(
            "transport.package-missing",
            "serving needs the package `granian`, which is not installed",
            hint='pip install "torvyn[serve]"',
        ) from error
