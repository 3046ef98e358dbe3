"""The server: the application on its sockets, until a signal ends it.

Nothing forks, so engines may be open already. The application and the wire run on the loop of the
calling thread.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import signal
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from torvyn._io.process import SignalHandler, shorten_switch_interval
from torvyn._io.resources import raise_open_files
from torvyn._io.supervision import notify, watchdog_interval_s
from torvyn.errors import TorvynError
from torvyn.transport.application import Application, last_moments_s
from torvyn.transport.grpc.packages import has_packages
from torvyn.transport.listener import tls
from torvyn.transport.listener.handed_sockets import are_sockets_kept
from torvyn.transport.listener.hangup import reload_on_hangup
from torvyn.transport.listener.native_listener import NativeListener
from torvyn.transport.listener.sockets import address_of, listen, listen_for_grpc
from torvyn.transport.workers.worker_signals import ParentPipe


class Server:
    """Use in an `async with` statement: serves inside the block."""

    def __init__(self, application: Application) -> None:
        self.application = application
        settings = application.settings
        certificate = tls.certificate(settings)
        sock = listen(settings)
        address = address_of(sock)
        self.url = f"{'https' if certificate else 'http'}://{address}"
        self.port: int = sock.getsockname()[1]
        self._listener = NativeListener(application, sock, certificate)
        self.grpc_address = address if has_packages() else None
        """Where gRPC is served; None: nowhere."""
        self._grpc_listener: NativeListener | None = None
        self._end_s: float | None = None
        """When the grace of a shutdown is over, on the clock of the loop."""
        if settings.grpc_port is not None:
            application.grpc.load()
            sock = listen_for_grpc(settings, settings.grpc_port)
            self.grpc_address = address_of(sock)
            self._grpc_listener = NativeListener(application, sock, certificate, is_for_grpc=True)
        application.connection_metrics = self._connection_metrics

    async def __aenter__(self) -> Self:
        await self.application.start()
        self._listener.start()
        if self._grpc_listener is not None:
            self._grpc_listener.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.application.grpc.close()
        now_s = asyncio.get_running_loop().time()
        grace_s = self.application.settings.shutdown_grace_s
        end_s = max(self._end_s or now_s + grace_s, now_s + last_moments_s(grace_s))
        if error is not None:
            end_s = now_s + 0.1
        for listener in filter(None, (self._listener, self._grpc_listener)):
            await listener.stop(max(0.0, end_s - asyncio.get_running_loop().time()))

    def drain(self, *, has_successor: bool = False) -> None:
        """Open connections end when their requests are answered. New ones are answered once, so
        that a balancer learns from `/readyz` that the server drains, unless another process
        accepts them now. The port for gRPC stays open: its clients learn it from the health of the
        server."""
        loop = asyncio.get_running_loop()
        self._end_s = loop.time() + self.application.settings.shutdown_grace_s
        self._listener.drain(has_successor=has_successor)
        self.application.grpc.drain()

    def reload(self) -> list[TorvynError]:
        """Reads the certificate again, for new connections, and opens the audit file again. What
        cannot be used is returned; the server keeps what it has instead."""
        problems: list[TorvynError] = []
        for change in (self._reload_certificate, self.application.authenticator.audit.reopen):
            try:
                change()
            except TorvynError as error:
                problems.append(error)
        return problems

    def _reload_certificate(self) -> None:
        certificate = tls.certificate(self.application.settings)
        if certificate is not None:
            self._listener.use_certificate(certificate)
            if self._grpc_listener is not None:
                self._grpc_listener.use_certificate(certificate)

    def _connection_metrics(self) -> dict[str, int]:
        """Of both ports together."""
        names = ("", "_with_key", "_evicted_total", "_refused_total")
        counts = [self._listener.counts()]
        if self._grpc_listener is not None:
            counts.append(self._grpc_listener.counts())
        sums = map(sum, zip(*counts, strict=True))
        return {f"torvyn_connections{name}": n for name, n in zip(names, sums, strict=True)}

    async def wait_failed(self) -> None:
        """Returns, or raises, when the listener ends by itself."""
        await self._listener.wait_failed()


def serve(
    application: Application, on_ready: Callable[[Server], None], on_stopping: Callable[[], None]
) -> int:
    """Serves until a signal ends it; returns the number of the signal. `on_ready` gets the server,
    which knows its addresses; `on_stopping` is called when the shutdown begins."""
    shorten_switch_interval()
    raise_open_files()
    # The garbage collector would scan what is loaded now again and again, and delay every stream.
    gc.collect()
    gc.freeze()
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(_serve(application, on_ready, on_stopping))


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
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
            reload_on_hangup(server, lambda: on_signal(signal.SIGTERM))
            parent = None if application.settings.share.is_whole else ParentPipe()
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
            # Its port is that of the next generation, or of other workers.
            is_alone = parent is not None and not parent.ends_all()
            server.drain(has_successor=is_alone or are_sockets_kept())
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
