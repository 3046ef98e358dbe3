"""The server of the HTTP source, on a thread and an event loop of its own.

A request is answered with 200 when the flow has settled all its elements, not before. What cannot
be taken now is refused at once, with a time after which to try again.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import ssl
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from aiohttp import web

from torvyn._io.background_loop import end_loop, start_loop, wait_for
from torvyn.components.http.request_body import split_body
from torvyn.errors import InvalidInput

_RETRY_AFTER: Final = {"Retry-After": "1"}
_START_S: Final = 10.0
_SHUTDOWN_S: Final = 1.0

Take = Callable[[list[bytes], str, dict[str, Any]], None]
"""Hands payloads, their content type and their attributes to the source."""


@dataclass(frozen=True, slots=True, repr=False)
class ListenerOptions:
    """No `repr`, because it has the token."""

    host: str
    port: int
    path: str
    token: str
    format: str
    max_body_bytes: int
    max_waiting: int
    max_connections: int
    timeout_s: float
    tls: ssl.SSLContext | None


class Listener:
    def __init__(self, options: ListenerOptions, take: Take) -> None:
        self.port = options.port
        """The port that is listened on, once started."""
        self._options = options
        self._take = take
        self._loop = start_loop()
        self._waiting: deque[list[Any]] = deque()
        """Requests that wait, in order: how many elements are not settled, and the future."""
        self._unsettled = 0
        self._is_closing = False
        self._runner: web.AppRunner | None = None
        self._server: asyncio.Server | None = None

    # From other threads

    def start(self) -> None:
        """Listens; raises `OSError` if the port cannot be used."""
        wait_for(self._open(), self._loop, _START_S)

    def settle(self, count: int) -> None:
        """The next elements are settled."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._settle, count)

    def close(self) -> None:
        """Answers what waits with 503, and stops listening."""
        with contextlib.suppress(RuntimeError, TimeoutError):
            wait_for(self._close(), self._loop, 2 * _SHUTDOWN_S)
        end_loop(self._loop, _SHUTDOWN_S)

    # On the loop

    async def _open(self) -> None:
        # One more than the limit: some versions of aiohttp refuse a body of exactly this size.
        app = web.Application(client_max_size=self._options.max_body_bytes + 1)
        app.router.add_route("*", self._options.path, self._handle)
        self._runner = web.AppRunner(
            app, access_log=None, handle_signals=False, shutdown_timeout=_SHUTDOWN_S
        )
        await self._runner.setup()
        self._server = await self._loop.create_server(
            self._protocol, self._options.host, self._options.port, ssl=self._options.tls
        )
        self.port = self._server.sockets[0].getsockname()[1]

    def _protocol(self) -> asyncio.BaseProtocol:
        assert self._runner is not None
        server: Any = self._runner.server
        if len(server.connections) >= self._options.max_connections:
            return _Refusal()
        protocol: asyncio.BaseProtocol = server()
        return protocol

    async def _close(self) -> None:
        self._is_closing = True
        for _, future in self._waiting:
            if not future.done():
                future.set_result(False)
        if self._server is not None:
            self._server.close()
        if self._runner is not None:
            await self._runner.cleanup()

    def _settle(self, count: int) -> None:
        self._unsettled -= count
        while count and self._waiting:
            entry = self._waiting[0]
            settled = min(count, entry[0])
            entry[0] -= settled
            count -= settled
            if not entry[0]:
                self._waiting.popleft()
                if not entry[1].done():
                    entry[1].set_result(True)

    async def _handle(self, request: web.Request) -> web.Response:
        refusal = self._refusal(request)
        if refusal is not None:
            return refusal
        try:
            body = await asyncio.wait_for(request.read(), self._options.timeout_s)
            if len(body) > self._options.max_body_bytes:
                return self._too_large()
            payloads, kind = split_body(
                body, request.headers.get("Content-Type", ""), self._options.format
            )
        except web.HTTPRequestEntityTooLarge:
            return self._too_large()
        except TimeoutError:
            return _answer(408, f"the body took longer than {self._options.timeout_s:g} s")
        except InvalidInput as error:
            return _answer(400, error.message)
        if not payloads:
            return _answer(200, "accepted 0 elements")
        if self._unsettled and self._unsettled + len(payloads) > self._options.max_waiting:
            return _answer(429, "the flow is full", _RETRY_AFTER)
        return await self._deliver(payloads, kind, _attributes(request))

    def _too_large(self) -> web.Response:
        return _answer(413, f"a body may have {self._options.max_body_bytes} bytes")

    def _refusal(self, request: web.Request) -> web.Response | None:
        if request.method not in ("POST", "PUT"):
            return _answer(405, "use POST", {"Allow": "POST, PUT"})
        if not self._is_authorized(request):
            return _answer(401, "the token is missing or wrong", {"WWW-Authenticate": "Bearer"})
        if not self._options.token and "Origin" in request.headers:
            # A web page in a browser on this machine.
            return _answer(403, "requests of web pages need a token")
        if self._is_closing:
            return _answer(503, "the flow is ending", _RETRY_AFTER)
        if self._unsettled >= self._options.max_waiting:
            return _answer(429, "the flow is full", _RETRY_AFTER)
        return None

    def _is_authorized(self, request: web.Request) -> bool:
        token = self._options.token
        given = request.headers.get("Authorization", "").encode("utf-8", "surrogateescape")
        return not token or hmac.compare_digest(given, f"Bearer {token}".encode())

    async def _deliver(
        self, payloads: list[bytes], kind: str, attributes: dict[str, Any]
    ) -> web.Response:
        future: asyncio.Future[bool] = self._loop.create_future()
        self._waiting.append([len(payloads), future])
        self._unsettled += len(payloads)
        self._take(payloads, kind, attributes)
        try:
            is_settled = await asyncio.wait_for(future, self._options.timeout_s)
        except TimeoutError:
            is_settled = False
        if not is_settled:
            text = "not delivered yet; it may be delivered later, and again if you repeat it"
            return _answer(503, text, _RETRY_AFTER)
        return _answer(200, f"accepted {len(payloads)} elements")


class _Refusal(asyncio.Protocol):
    """Closes a connection that is one too many."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()


def _attributes(request: web.Request) -> dict[str, Any]:
    key = request.headers.get("Idempotency-Key")
    return {} if key is None else {"idempotency_key": key}


def _answer(status: int, text: str, headers: dict[str, str] | None = None) -> web.Response:
    return web.json_response({"message": text}, status=status, headers=headers)
