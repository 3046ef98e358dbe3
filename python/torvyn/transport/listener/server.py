"""The server: the application on a socket, served by granian in this process.

Granian reads and writes HTTP/1.1 and HTTP/2 on its own thread; the application runs on the loop of
the calling thread. Nothing forks, so engines may be open already. The socket is created here, with
small buffers and a kernel timeout for clients that stop reading.
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
from torvyn.concurrency.switch_interval import shorten_switch_interval
from torvyn.errors import MissingError, UsageError
from torvyn.machine.systemd_notify import notify, watchdog_interval_s
from torvyn.transport.application import Application
from torvyn.transport.listener import tls
from torvyn.transport.listener.idle_reaper import IdleReaper
from torvyn.transport.settings import KiB, ServerSettings

if TYPE_CHECKING:
    from torvyn.transport.grpc.server import GrpcServer

BACKLOG: Final = 1024
_SEND_BYTES: Final = 16 * KiB
"""The kernel doubles it for its own data. Tokens are small and clients are fast: when a client is
slow, it is better that the engine waits than that the socket fills."""
_HEADER_MS: Final = 10_000
_BUFFER_BYTES: Final = 32 * KiB
"""Per connection: the largest request headers, and the output that waits."""
_THREADS_END_MS: Final = 250
"""Granian's threads release their last objects a moment after it stops. An interpreter that exits
meanwhile crashes the process. Threads of other libraries stay, so this waits for a limited time."""


def require_one_worker(count: int) -> None:
    """Several processes would each have their own streams and limits."""
    if count > 1:
        raise UsageError(
            "transport.one-worker",
            f"`--workers {count}`: a server runs in one process",
            hint="processes do not share streams and limits; run several servers on several ports "
            "behind a proxy",
        )


def listen(settings: ServerSettings) -> socket.socket:
    """A listening socket. Connections inherit its options."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        set_socket_options(sock, settings)
        sock.bind((settings.host, settings.port))
        sock.listen(BACKLOG)
        sock.setblocking(False)
    except OSError as error:
        sock.close()
        reason = (error.strerror or str(error)).lower()
        raise MissingError(
            "transport.cannot-listen",
            f"cannot listen on {settings.host}:{settings.port}: {reason}",
            hint="choose another port with `--port`; 0 takes any free port",
        ) from error
    return sock


def set_socket_options(sock: socket.socket, settings: ServerSettings) -> None:
    """Small buffers, and a timeout for clients that stop reading."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BYTES)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if sys.platform == "linux":
        user_timeout_ms = int(settings.write_timeout_s * 1000)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _SEND_BYTES)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, user_timeout_ms)


class Server:
    """Use in an `async with` statement: serves inside the block."""

    def __init__(self, application: Application) -> None:
        self.application = application
        embed = _granian("granian.server.embed")
        tls_options = tls.options(application.settings)
        self._socket = listen(application.settings)
        host, port = self._socket.getsockname()[:2]
        name = f"[{host}]" if ":" in host else host
        self.url = f"{'https' if tls_options else 'http'}://{name}:{port}"
        self.port: int = port
        self._granian = embed.Server(application, **_options(application.settings), **tls_options)
        # The only way to pass a socket to granian.
        self._granian._init_shared_socket = self._share_socket
        self.grpc = _grpc(application)
        self._idle_reaper = IdleReaper(port, *(() if self.grpc is None else (self.grpc.port,)))

    async def __aenter__(self) -> Self:
        self._threads_before = _native_threads()
        self._serving = asyncio.ensure_future(self._granian.serve())
        if self.grpc is not None:
            await self.grpc.start()
        self._idle_reaper.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._idle_reaper.stop()
        if self.grpc is not None:
            await self.grpc.stop()
        self._granian.stop()
        grace_s = 0.1 if error is not None else self.application.settings.shutdown_grace_s
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._serving, grace_s)
        await self._wait_for_threads()

    def stop_accepting(self) -> None:
        """Accepts no more connections; open ones continue.

        Granian would close WebSockets when it stops, so it stops after the last one; until then
        the application rejects new requests."""
        self.application.running.channels.when_empty(self._granian.stop)
        if self.grpc is not None:
            self.grpc.stop_accepting()

    async def wait_failed(self) -> None:
        """Returns, or raises, when granian ends by itself."""
        await asyncio.shield(self._serving)

    async def _wait_for_threads(self) -> None:
        for _ in range(_THREADS_END_MS):
            if not _native_threads() - self._threads_before:
                return
            await asyncio.sleep(0.001)

    def _share_socket(self) -> None:
        holder = _granian("granian.net").SocketHolder
        self._granian._shd = holder(self._socket.detach(), False, BACKLOG)


def serve(
    application: Application, on_ready: Callable[[Server], None], on_stopping: Callable[[], None]
) -> int:
    """Serves until a signal ends it; returns the number of the signal. `on_ready` gets the server,
    which knows its addresses; `on_stopping` is called when the shutdown begins."""
    shorten_switch_interval()
    # The garbage collector would scan what is loaded now again and again, and delay every stream.
    gc.collect()
    gc.freeze()
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(_serve(application, on_ready, on_stopping))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop if it is installed, which is about twice as fast; else Python's own loop."""
    try:
        make: Callable[[], asyncio.AbstractEventLoop] = importlib.import_module(
            "uvloop"
        ).new_event_loop
    except ModuleNotFoundError:
        return None
    return make


async def _serve(
    application: Application, on_ready: Callable[[Server], None], on_stopping: Callable[[], None]
) -> int:
    loop = asyncio.get_running_loop()
    signalled: asyncio.Future[int] = loop.create_future()

    def on_signal(number: int) -> None:
        if not signalled.done():
            signalled.set_result(number)
            return
        application.end_calls()

    with SignalHandler(lambda number: loop.call_soon_threadsafe(on_signal, number), loop=loop):
        async with Server(application) as server:
            on_ready(server)
            notify("READY=1", f"STATUS=serving at {server.url}")
            failed = asyncio.ensure_future(server.wait_failed())
            alive = asyncio.ensure_future(_feed_watchdog())
            either: set[asyncio.Future[Any]] = {signalled, failed}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if not signalled.done():
                failed.result()
            on_stopping()
            notify("STOPPING=1", f"STATUS=ending {len(application.running.calls)} streams")
            server.stop_accepting()
            await application.drain()
            failed.cancel()
            alive.cancel()
    return signalled.result()


async def _feed_watchdog() -> None:
    """Tells systemd that the event loop runs; it ends the process when these messages stop."""
    interval_s = watchdog_interval_s()
    while interval_s is not None:
        notify("WATCHDOG=1")
        await asyncio.sleep(interval_s)


def _native_threads() -> set[int]:
    """The threads that Python does not know; empty if the system does not list them."""
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

    return GrpcServer(
        application.dispatcher,
        application.authenticator,
        application.request_log,
        application.sample_rate,
    )


def _granian(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise MissingError(
            "transport.package-missing",
            "serving needs the package `granian`, which is not installed",
            hint='pip install "torvyn[serve]"',
        ) from error
