"""A small server with scripted faults: it rejects requests, hangs, repeats or skips frames, and
cuts connections after a number of bytes."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Self

from aiohttp import web

from torvyn.protocol import DeltaFrame, Encoder, EndFrame, ErrorFrame, Finish, Frame, Usage

ID, EPOCH = "req-1", "k3"
WORDS = ("Grüße", " aus", " «Paris»", ' "q"\n', "\\ 👩‍👩‍👧", ".")
ENDED = EndFrame(len(WORDS) + 1, (Finish(0, "stop"),), Usage(3, len(WORDS)))
FRAMES: tuple[Frame, ...] = (*(DeltaFrame(n, 0, "text", w) for n, w in enumerate(WORDS, 1)), ENDED)
TEXT = "".join(WORDS)


def failing(code: str, *, retryable: bool = False) -> tuple[Frame, ...]:
    """Half an answer, then an error."""
    error = ErrorFrame(3, code, "it broke", retryable)
    return (*FRAMES[:2], error, EndFrame(4, (Finish(0, "error"),), Usage(3, 2)))


def blocks(frames: Sequence[Frame]) -> list[bytes]:
    """The start frame, then the frames, as events."""
    encoder = Encoder("torvyn", "sse", id=ID, flow="chat", created=1, epoch=EPOCH)
    return [encoder.start(), *(encoder.encode(frame) for frame in frames)]


class FaultyServer:
    """`script` has one entry per connection, and the last one repeats: `cut` the connection after
    that many bytes, answer `status` with `headers` and `body`, `hang` after the bytes, send the
    bytes of `then` first, or answer `late`, when the test sets `may_answer`."""

    def __init__(self, frames: Sequence[Frame] = FRAMES, script: Sequence[Mapping[str, Any]] = ()):
        self.blocks = blocks(frames)
        self.script = list(script)
        self.requests: list[web.Request] = []
        self.bodies: list[Any] = []
        self.tls: ssl.SSLContext | None = None
        self.connected = asyncio.Event()
        self.left = asyncio.Event()
        self.received = asyncio.Event()
        self.may_answer = asyncio.Event()

    @property
    def request_lines(self) -> list[str]:
        """The method, path and last event id of every request."""
        lines = [(r.method, r.path_qs, r.headers.get("Last-Event-ID")) for r in self.requests]
        return [" ".join(part for part in line if part) for line in lines]

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Self]:
        app = web.Application()
        app.router.add_post("/v1/streams", self._stream)
        app.router.add_get("/v1/streams/{id}", self._stream)
        app.router.add_delete("/v1/streams/{id}", self._end)
        app.router.add_get("/{path:.*}", self._plain)
        runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=self.tls)
        await site.start()
        self.port = runner.addresses[0][1]
        self.url = f"http{'s' if self.tls else ''}://127.0.0.1:{self.port}"
        try:
            yield self
        finally:
            await runner.cleanup()

    def _turn(self) -> Mapping[str, Any]:
        if not self.script:
            return {}
        return self.script.pop(0) if len(self.script) > 1 else self.script[0]

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request)
        if request.method == "POST":
            self.bodies.append(await request.json())
        turn = self._turn()
        self.received.set()
        if turn.get("late"):
            try:
                await self.may_answer.wait()
            except asyncio.CancelledError:
                self.left.set()
                raise
        if "status" in turn:
            return _plain_response(turn)
        after = int((request.headers.get("Last-Event-ID") or "k3-0").rpartition("-")[2])
        after += turn.get("off_by", 0)
        data = turn.get("then", b"") + b"".join([self.blocks[0], *self.blocks[1 + max(0, after) :]])
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await self._send(request, response, data, turn)
        return response

    async def _send(
        self, request: web.Request, response: web.StreamResponse, data: bytes, turn: Any
    ) -> None:
        cut = turn.get("cut")
        await response.write(data if cut is None else data[:cut])
        self.connected.set()
        if turn.get("hang"):
            try:
                await asyncio.Event().wait()
            finally:
                self.left.set()
        elif cut is not None:
            assert request.transport is not None
            request.transport.close()

    async def _end(self, request: web.Request) -> web.Response:
        self.requests.append(request)
        turn = self.script[-1] if self.script else {}
        return web.json_response({"id": ID}, status=turn.get("end_status", 202))

    async def _plain(self, request: web.Request) -> web.Response:
        self.requests.append(request)
        return _plain_response({"status": 200, "body": "{}", **self._turn()})


def _plain_response(turn: Mapping[str, Any]) -> web.Response:
    if turn["status"] == 204:
        return web.Response(status=204)
    body = turn.get("body", "")
    return web.Response(status=turn["status"], headers=turn.get("headers"), text=body)
