"""One HTTP request from its headers to its log line: host check, API key, route, rejection."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from torvyn.protocol import traceparent
from torvyn.transport.http import routes
from torvyn.transport.http.exchange import ClientDisconnected, HttpExchange
from torvyn.transport.rejection import (
    headers_of,
    openai_error_body,
    row_of,
    torvyn_error_body,
)
from torvyn.transport.websocket.channel import PATH as WEBSOCKET

if TYPE_CHECKING:
    from torvyn.transport.access.authentication import Authenticator
    from torvyn.transport.access.host_check import HostCheck
    from torvyn.transport.rejection import ErrorReporter
    from torvyn.transport.telemetry.request_log import RequestLog

_TORVYN: Final = ("/v1/streams", WEBSOCKET)
"""Paths below `/v1/` whose errors do not have OpenAI's shape."""
_METHODS: Final = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})


class HttpEndpoint:
    def __init__(
        self,
        router: routes.Router | routes.NoRoutes,
        errors: ErrorReporter,
        host_check: HostCheck,
        authenticator: Authenticator,
        request_log: RequestLog,
    ) -> None:
        self._router = router
        self._errors = errors
        self._host_check = host_check
        self._authenticator = authenticator
        self._request_log = request_log

    async def handle(self, exchange: HttpExchange) -> None:
        started_s = time.perf_counter()
        route = self._router.name(exchange.path)
        before = traceparent.CURRENT.set(exchange.trace)
        try:
            exchange.check()
            exchange.cors_headers = self._host_check.cors.headers(exchange.headers)
            self._host_check.check(exchange.headers)
            allowed = self._host_check.cors.preflight(exchange.method, exchange.headers)
            if allowed is not None:
                route = "preflight"
                await exchange.answer(b"", 204, headers=allowed)
            else:
                self._identify(exchange)
                handler = self._router.find(exchange)
                await handler(exchange)
        except ClientDisconnected:
            return
        except Exception as error:
            await self._reject(exchange, error)
        finally:
            traceparent.CURRENT.reset(before)
            # The client chooses the method: only those that have a meaning are counted apart.
            method = exchange.method if exchange.method in _METHODS else "other"
            self._request_log.count(method, route, exchange.status)
        self._request_log.write(
            method,
            route,
            exchange.status,
            time.perf_counter() - started_s,
            request_id=exchange.id,
            trace_id=exchange.trace.trace_id,
            peer=exchange.peer,
            summary=exchange.summary,
        )

    def _identify(self, exchange: HttpExchange) -> None:
        if routes.is_public(exchange.path):
            return
        context = {"request_id": exchange.id, "peer": exchange.peer}
        caller = self._authenticator.identify(exchange.headers, **context)
        exchange.recognise(caller)
        if routes.is_for_admins(exchange.path):
            self._authenticator.require_admin(caller, **context)

    async def _reject(self, exchange: HttpExchange, raised: Exception) -> None:
        error, message = self._errors.report(raised, exchange.id)
        if not exchange.summary.get("error"):
            exchange.summary = {**exchange.summary, "error": error.code}
        if exchange.has_begun:
            return
        is_openai = exchange.path.startswith("/v1/") and not exchange.path.startswith(_TORVYN)
        body = (openai_error_body if is_openai else torvyn_error_body)(error, message)
        await exchange.answer(body, row_of(error).status, headers=headers_of(error))
