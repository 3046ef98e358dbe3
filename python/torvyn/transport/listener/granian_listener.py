"""Granian: reads and writes HTTP/1.1, HTTP/2 and WebSockets on threads of its own."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import os
import socket
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from torvyn.errors import MissingError, UsageError
from torvyn.transport.listener.sockets import BACKLOG
from torvyn.transport.settings import KiB, ServerSettings

if TYPE_CHECKING:
    from torvyn.transport.application import Application
    from torvyn.transport.listener.tls import Certificate

_BUFFER_BYTES: Final = 32 * KiB
"""Per connection: the largest request headers, and the output that waits."""
_THREADS_END_MS: Final = 250
"""Granian's threads release their last objects a moment after it stops. An interpreter that exits
meanwhile crashes the process. Threads of other libraries stay, so this waits for a limited time."""


class GranianListener:
    def __init__(
        self, application: Application, sock: socket.socket, certificate: Certificate | None
    ) -> None:
        embed = _granian("granian.server.embed")
        self._application = application
        self._socket = sock
        options = _options(application.settings)
        if certificate is not None:
            options["ssl_cert"] = Path(certificate.chain)
            options["ssl_key"] = Path(certificate.key)
            options["ssl_protocol_min"] = "tls1.2"
        self._granian = embed.Server(application, **options)
        # The only way to pass a socket to granian.
        self._granian._init_shared_socket = self._share_socket

    def start(self) -> None:
        self._threads_before = _native_threads()
        self._serving = asyncio.ensure_future(self._granian.serve())

    def stop_accepting(self) -> None:
        """Granian would close WebSockets when it stops, so it stops after the last one; until then
        the application rejects new requests."""
        self._application.running.channels.when_empty(self._granian.stop)

    def use_certificate(self, certificate: Certificate) -> None:
        raise UsageError(
            "transport.tls-unusable",
            'with `wire = "granian"` a new certificate needs a restart',
            hint='set `wire = "native"` in `[serve]`',
        )

    async def stop(self, grace_s: float) -> None:
        self._granian.stop()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._serving, grace_s)
        for _ in range(_THREADS_END_MS):
            if not _native_threads() - self._threads_before:
                return
            await asyncio.sleep(0.001)

    async def wait_failed(self) -> None:
        """Returns, or raises, when granian ends by itself."""
        await asyncio.shield(self._serving)

    def _share_socket(self) -> None:
        holder = _granian("granian.net").SocketHolder
        self._granian._shd = holder(self._socket.detach(), False, BACKLOG)


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
            header_read_timeout=int(settings.head_timeout_s * 1000), max_buffer_size=_BUFFER_BYTES
        ),
        "http2_settings": http.HTTP2Settings(
            initial_connection_window_size=256 * KiB,
            initial_stream_window_size=64 * KiB,
            keep_alive_interval=20_000,
            max_headers_size=_BUFFER_BYTES,
            max_send_buffer_size=_BUFFER_BYTES,
        ),
    }


def _granian(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise MissingError(
            "transport.package-missing",
            "serving needs the package `granian`, which is not installed",
            hint='pip install "torvyn[serve]"',
        ) from error
