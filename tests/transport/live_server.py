"""A real server on a free port, on its own thread, stopped by the test."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from torvyn._observe.spans import Tracer
from torvyn.engine import Engine, Service
from torvyn.serve import Application, ServerSettings, app
from torvyn.transport.listener.server import Server, loop_factory

PATIENCE_S = 10.0


def ask(url: str, body: Any = None, method: str | None = None) -> tuple[int, str]:
    """The status and the text of an answer, also of an error."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, method=method)
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


class Served:
    """A server that runs. `end` is what a signal does."""

    def __init__(self, application: Application) -> None:
        self.application = application
        self._began = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        """On the kind of loop that `torvyn serve` uses."""
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._ending = asyncio.Event()
        async with Server(self.application) as server:
            self.url, self.port = server.url, server.port
            self.grpc = server.grpc_address or ""
            self._began.set()
            await self._ending.wait()
            server.drain()
            await self.application.drain()

    def start(self) -> None:
        self._thread.start()
        assert self._began.wait(PATIENCE_S)

    @property
    def thread_id(self) -> int:
        assert self._thread.ident is not None
        return self._thread.ident

    def begin_end(self) -> None:
        """As a signal, without waiting for the end."""
        with suppress(RuntimeError):  # Its loop is closed: it has ended meanwhile.
            self.loop.call_soon_threadsafe(self._ending.set)

    def end(self) -> None:
        if self._thread.is_alive():
            self.begin_end()
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive(), "the server did not end"

    def connect(self, receive_bytes: int | None = None) -> socket.socket:
        sock = socket.socket()
        if receive_bytes is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        sock.settimeout(PATIENCE_S)
        sock.connect(("127.0.0.1", self.port))
        return sock

    def ask(self, body: bytes, path: str = "/v1/streams", **options: Any) -> socket.socket:
        """A socket on which that was asked."""
        sock = self.connect(**options)
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
        sock.sendall(head.encode() + body)
        return sock


@contextmanager
def served(
    services: Engine | dict[str, Service], tracer: Tracer | None = None, **settings: Any
) -> Iterator[Served]:
    if isinstance(services, Engine):
        services = {"chat": Service("chat", services)}
    # A test whose engine waits does not wait long for the start of its answer.
    settings = {"port": 0, "shutdown_grace_s": 2.0, "first_byte_wait_s": 0.5, **settings}
    server = Served(app(services, ServerSettings(**settings), tracer))
    server.start()
    try:
        yield server
    finally:
        server.end()


def wait_for(condition: Any) -> Any:
    """What the condition gives as soon as that is something."""
    end_s = time.monotonic() + PATIENCE_S
    while not (found := condition()):
        assert time.monotonic() < end_s, "it never came"
        time.sleep(0.001)
    return found
