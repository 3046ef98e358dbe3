"""Routes that flows answer: ours and OpenAI's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from torvyn.protocol.encoder import Framing
from torvyn.transport import request_body
from torvyn.transport.wire import HttpWire

if TYPE_CHECKING:
    from torvyn.transport.application import Application
    from torvyn.transport.http.exchange import HttpExchange
    from torvyn.transport.request_body import InferenceRequest

_LINES: Final = ("application/x-ndjson", "application/jsonl")


async def own(app: Application, exchange: HttpExchange) -> None:
    await _answer(app, exchange, request_body.parse_torvyn(await _json(app, exchange)))


async def chat(app: Application, exchange: HttpExchange) -> None:
    await _answer(app, exchange, request_body.parse_chat(await _json(app, exchange)))


async def completions(app: Application, exchange: HttpExchange) -> None:
    await _answer(app, exchange, request_body.parse_completions(await _json(app, exchange)))


async def _json(app: Application, exchange: HttpExchange) -> dict[str, Any]:
    return await exchange.body(app.settings, app.bodies)


async def _answer(app: Application, exchange: HttpExchange, request: InferenceRequest) -> None:
    await app.answer(HttpWire(exchange, framing(exchange, request.dialect == "torvyn")), request)


def framing(exchange: HttpExchange, may_be_lines: bool = True) -> Framing:
    """How the frames should be laid out, as the client says."""
    accept = exchange.headers.get("accept", "")
    if not may_be_lines or "text/event-stream" in accept:
        return "sse"
    return "lines" if any(kind in accept for kind in _LINES) else "sse"
