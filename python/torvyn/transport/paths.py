"""Paths: what can be asked for, by which method, and who answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from torvyn.transport import about, answering, page, resuming, websocket
from torvyn.transport.refusal import Refusal

if TYPE_CHECKING:
    from torvyn.transport.application import Application
    from torvyn.transport.exchange import Exchange

Handler = Callable[["Application", "Exchange"], Awaitable[None]]

PATHS: Final[dict[str, dict[str, Handler]]] = {
    "/": {"GET": page.page},
    page.ASSETS + "{name}": {"GET": page.asset},
    "/v1/streams": {"POST": answering.own},
    resuming.STREAM + "{id}": {"GET": resuming.read, "DELETE": resuming.stop},
    websocket.PATH: {"GET": websocket.upgrade},
    "/v1/chat/completions": {"POST": answering.chat},
    "/v1/completions": {"POST": answering.completions},
    "/v1/models": {"GET": about.models},
    about.MODEL + "{name}": {"GET": about.one_model},
    "/flows": {"GET": about.flows},
    about.FLOW + "{id}": {"GET": about.one_flow},
    "/metrics": {"GET": about.metrics},
    "/healthz": {"GET": about.health},
    "/readyz": {"GET": about.ready},
    "/openapi.json": {"GET": about.openapi},
}
_FREE: Final = ("/", "/healthz", "/readyz")
_OPEN_ENDED: Final = {path.partition("{")[0]: path for path in PATHS if "{" in path}


def is_open(path: str) -> bool:
    """Whether it is answered without a key: how the server is, and the page that asks for one."""
    return path in _FREE or path.startswith("/assets/")


def find(exchange: Exchange) -> tuple[str, Handler]:
    """The path as it is counted, and its handler; a refusal when there is none."""
    path = exchange.path
    if path not in PATHS:
        path = next((full for start, full in _OPEN_ENDED.items() if path.startswith(start)), path)
    methods = PATHS.get(path)
    if methods is None:
        message = f"there is no route {exchange.path[:100]!r}"
        hint = "`/openapi.json` lists them"
        raise Refusal(404, "transport.route-unknown", message, hint=hint)
    if exchange.method not in methods:
        allowed = ", ".join(methods)
        message = f"`{path}` takes {allowed}, not {exchange.method[:16]}"
        raise Refusal(405, "transport.method-refused", message, headers={"allow": allowed})
    return path, methods[exchange.method]
