"""The URL table: which paths exist, by which method, and what handles them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from torvyn.transport.http import page, server_routes, stream_routes
from torvyn.transport.rejection import Rejection
from torvyn.transport.websocket import channel as websocket
from torvyn.transport.websocket.endpoint import upgrade_required

if TYPE_CHECKING:
    from torvyn.transport.http.exchange import HttpExchange
    from torvyn.transport.http.inference_routes import InferenceRoutes
    from torvyn.transport.http.pool_routes import PoolRoutes

Handler = Callable[["HttpExchange"], Awaitable[None]]

UNKNOWN: Final = "unknown"
"""A path that does not exist: the client chooses it, so they are not counted apart."""
_PUBLIC: Final = ("/", "/healthz", "/readyz")
_FOR_ADMINS: Final = ("/flows", "/metrics", "/pools")
"""They show what all callers do, or change it."""


class Router:
    def __init__(
        self,
        inference: InferenceRoutes,
        streams: stream_routes.StreamRoutes,
        server: server_routes.ServerRoutes,
        pools: PoolRoutes,
    ) -> None:
        self.paths: dict[str, dict[str, Handler]] = {
            "/": {"GET": page.index},
            page.ASSETS + "{name}": {"GET": page.asset},
            "/v1/streams": {"POST": inference.stream},
            stream_routes.STREAM + "{id}": {"GET": streams.read, "DELETE": streams.stop},
            websocket.PATH: {"GET": upgrade_required},
            "/v1/chat/completions": {"POST": inference.chat},
            "/v1/completions": {"POST": inference.completions},
            "/v1/models": {"GET": server.models},
            server_routes.MODEL + "{name}": {"GET": server.model},
            "/flows": {"GET": server.flows},
            server_routes.FLOW + "{id}": {"GET": server.flow},
            "/pools": {"GET": pools.show, "POST": pools.change},
            "/metrics": {"GET": server.metrics},
            "/healthz": {"GET": server.health},
            "/readyz": {"GET": server.ready},
            "/openapi.json": {"GET": server.openapi},
        }
        self._prefixes = {path.partition("{")[0]: path for path in self.paths if "{" in path}

    def name(self, path: str) -> str:
        """The path as metrics and the log name it."""
        if path in self.paths:
            return path
        matches = (full for start, full in self._prefixes.items() if path.startswith(start))
        return next(matches, UNKNOWN)

    def find(self, exchange: HttpExchange) -> Handler:
        """What handles it. Raises a rejection."""
        path = self.name(exchange.path)
        methods = self.paths.get(path)
        if methods is None:
            if exchange.headers.get("content-type", "").startswith("application/grpc"):
                raise grpc_refused()
            message = f"the route {exchange.path[:100]!r} does not exist"
            hint = "`/openapi.json` lists the routes"
            raise Rejection(404, "transport.route-unknown", message, hint=hint)
        # The server below sends the head of what GET would answer.
        method = "GET" if exchange.method == "HEAD" else exchange.method
        if method not in methods:
            allowed = ", ".join([*methods, "HEAD"] if "GET" in methods else methods)
            message = f"`{path}` takes {allowed}, not {exchange.method[:16]}"
            raise Rejection(405, "transport.method-refused", message, headers={"allow": allowed})
        return methods[method]


def is_for_admins(path: str) -> bool:
    return path in _FOR_ADMINS


class NoRoutes:
    """The table of the port for gRPC."""

    def name(self, path: str) -> str:
        return UNKNOWN

    def find(self, exchange: HttpExchange) -> Handler:
        if exchange.headers.get("content-type", "").startswith("application/grpc"):
            raise grpc_refused()
        message = "this port serves gRPC only"
        raise Rejection(404, "transport.route-unknown", message, hint="HTTP is at `port`")


def is_public(path: str) -> bool:
    """Whether it needs no API key: health, and the page that asks for the key."""
    return path in _PUBLIC or path.startswith(page.ASSETS)


def grpc_refused() -> Rejection:
    message = "this connection does not carry gRPC"
    hint = (
        "gRPC needs HTTP/2, `application/grpc` or `application/grpc+proto`, and "
        "`te: trailers`, and is not served to programs that mount the server"
    )
    return Rejection(415, "transport.grpc-refused", message, hint=hint)
