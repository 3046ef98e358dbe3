"""A registry that serves one layout and misbehaves as a test wants, and a proxy that cuts."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field

from aiohttp import web

from torvyn._artifact.layout import Layout
from torvyn._artifact.oci import IMAGE_MANIFEST, Digest
from torvyn.errors import TorvynError

Fault = Callable[[web.Request], Awaitable[web.StreamResponse | None]]


async def no_fault(_request: web.Request) -> None:
    return None


@dataclass
class ScriptedRegistry:
    layout: Layout | None = None
    fault: Fault = no_fault
    """Answers a request in place of the registry, or returns None."""
    requests: list[web.Request] = field(default_factory=list)
    host: str = ""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request)
        response = await self.fault(request)
        return self.serve(request) if response is None else response

    def asked(self, part: str) -> list[web.Request]:
        return [request for request in self.requests if part in request.path]

    def serve(self, request: web.Request) -> web.Response:
        *_, kind, name = request.path.split("/")
        if self.layout is None or kind not in ("manifests", "blobs"):
            return web.Response(status=404)
        try:
            digest = self.layout.resolve(name).digest if kind == "manifests" else Digest(name)
            data = self.layout.path(digest).read_bytes()
        except (TorvynError, OSError):
            return web.Response(status=404)
        if kind == "manifests":
            headers = {"Content-Type": IMAGE_MANIFEST, "Docker-Content-Digest": digest}
            return web.Response(body=data, headers=headers)
        return ranged(request, data)


def ranged(request: web.Request, data: bytes) -> web.Response:
    wanted = request.http_range.start
    if not wanted:
        return web.Response(body=data)
    span = f"bytes {wanted}-{len(data) - 1}/{len(data)}"
    return web.Response(status=206, body=data[wanted:], headers={"Content-Range": span})


@contextlib.contextmanager
def on_a_loop(start: Callable[[], Awaitable[Callable[[], Awaitable[None]]]]) -> Iterator[None]:
    """Runs a server on a thread: `start` returns what stops it."""
    ready: Future[asyncio.AbstractEventLoop] = Future()
    done = asyncio.Event()

    async def main() -> None:
        try:
            stop = await start()
        except BaseException as error:
            ready.set_exception(error)
            raise
        ready.set_result(asyncio.get_running_loop())
        await done.wait()
        await stop()

    thread = threading.Thread(target=lambda: asyncio.run(main()), daemon=True)
    thread.start()
    loop = ready.result(20)
    try:
        yield
    finally:
        loop.call_soon_threadsafe(done.set)
        thread.join(20)


@contextlib.contextmanager
def scripted(layout: Layout | None = None, fault: Fault = no_fault) -> Iterator[ScriptedRegistry]:
    registry = ScriptedRegistry(layout, fault)

    async def start() -> Callable[[], Awaitable[None]]:
        # A request that is never answered ends with its client.
        server = web.Server(registry.answer, handler_cancellation=True)
        runner = web.ServerRunner(server, shutdown_timeout=0)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        registry.host = f"127.0.0.1:{runner.addresses[0][1]}"
        return runner.cleanup

    with on_a_loop(start):
        yield registry


async def begin(request: web.Request, **headers: str) -> web.StreamResponse:
    """A response whose body the test writes."""
    response = web.StreamResponse(headers={key.replace("_", "-"): v for key, v in headers.items()})
    await response.prepare(request)
    return response


def cut(request: web.Request) -> None:
    assert request.transport is not None
    request.transport.abort()


@dataclass
class CuttingProxy:
    """Passes bytes on, and cuts each of the first connections after so many bytes of a client."""

    target: str
    cuts: list[int]
    host: str = ""

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, port = self.target.split(":")
        theirs, ours = await asyncio.open_connection(host, int(port))
        back = asyncio.create_task(_copy(theirs, writer, None))
        try:
            first = await reader.read(65536)
            # A handshake of TLS is only a probe.
            limit = self.cuts.pop(0) if self.cuts and first[:1] != b"\x16" else None
            await _copy(reader, ours, limit, first)
        finally:
            back.cancel()
            for each in (ours, writer):
                each.transport.abort()

    async def start(self) -> Callable[[], Awaitable[None]]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.host = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"

        async def stop() -> None:
            server.close()

        return stop


async def _copy(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    limit: int | None,
    data: bytes = b"",
) -> None:
    with contextlib.suppress(OSError):
        while data := data or await reader.read(65536):
            if limit is not None:
                data, limit = data[:limit], limit - len(data)
            writer.write(data)
            await writer.drain()
            if limit is not None and limit <= 0:
                return
            data = b""
