"""Paths: what can be asked for, by which method, and who answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from torvyn.transport.http import inference_routes, page, server_routes, stream_routes
from torvyn.transport.rejection import Rejection
from torvyn.transport.websocket import endpoint

if TYPE_CHECKING:
    from torvyn.transport.application import Application
    from torvyn.transport.http.exchange import HttpExchange

Handler = Callable[["Application", "HttpExchange"], Awaitable[None]]

PATHS: Final[dict[str, dict[str, Handler]]] = {
    "/": {"GET": page.page},
    page.ASSETS + "{name}": {"GET": page.asset},
    "/v1/streams": {"POST": inference_routes.own},
    stream_routes.STREAM + "{id}": {"GET": stream_routes.read, "DELETE": stream_routes.stop},
    endpoint.PATH: {"GET": endpoint.upgrade},
    "/v1/chat/completions": {"POST": inference_routes.chat},
    "/v1/completions": {"POST": inference_routes.completions},
    "/v1/models": {"GET": server_routes.models},
    server_routes.MODEL + "{name}": {"GET": server_routes.one_model},
    "/flows": {"GET": server_routes.flows},
    server_routes.FLOW + "{id}": {"GET": server_routes.one_flow},
    "/metrics": {"GET": server_routes.metrics},
    "/healthz": {"GET": server_routes.health},
    "/readyz": {"GET": server_routes.ready},
    "/openapi.json": {"GET": server_routes.openapi},
}
_FREE: Final = ("/", "/healthz", "/readyz")
_OPEN_ENDED: Final = {path.partition("{")[0]: path for path in PATHS if "{" in path}


def is_open(path: str) -> bool:
    """Whether it is answered without a key: how the server is, and the page that asks for one."""
    return path in _FREE or path.startswith("/assets/")


def find(exchange: HttpExchange) -> tuple[str, Handler]:
    """The path as it is counted, and its handler; a rejection when there is none."""
    path = exchange.path
    if path not in PATHS:
        path = next((full for start, full in _OPEN_ENDED.items() if path.startswith(start)), path)
    methods = PATHS.get(path)
    if methods is None:
        message = f"there is no route {exchange.path[:100]!r}"
        hint = "`/openapi.json` lists them"
        raise Rejection(404, "transport.route-unknown", message, hint=hint)
    if exchange.method not in methods:
        allowed = ", ".join(methods)
        message = f"`{path}` takes {allowed}, not {exchange.method[:16]}"
        raise Rejection(405, "transport.method-refused", message, headers={"allow": allowed})
    return path, methods[exchange.method]
