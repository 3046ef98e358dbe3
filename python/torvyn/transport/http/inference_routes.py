"""Routes that flows answer: ours and OpenAI's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from torvyn.protocol.encoder import Framing
from torvyn.transport import request_body
from torvyn.transport.wire import HttpWire

if TYPE_CHECKING:
    from torvyn.transport.application import Application
    from torvyn.transport.http.exchange import Exchange
    from torvyn.transport.request_body import Asked

_LINES: Final = ("application/x-ndjson", "application/jsonl")


async def own(app: Application, exchange: Exchange) -> None:
    await _answer(app, exchange, request_body.own(await _json(app, exchange)))


async def chat(app: Application, exchange: Exchange) -> None:
    await _answer(app, exchange, request_body.chat(await _json(app, exchange)))


async def completions(app: Application, exchange: Exchange) -> None:
    await _answer(app, exchange, request_body.completions(await _json(app, exchange)))


async def _json(app: Application, exchange: Exchange) -> dict[str, Any]:
    return await exchange.body(app.settings, app.bodies)


async def _answer(app: Application, exchange: Exchange, wanted: Asked) -> None:
    await app.answer(HttpWire(exchange, framing(exchange, wanted.dialect == "torvyn")), wanted)


def framing(exchange: Exchange, may_be_lines: bool = True) -> Framing:
    """How the frames should be laid out, as the client says."""
    accept = exchange.headers.get("accept", "")
    if not may_be_lines or "text/event-stream" in accept:
        return "sse"
    return "lines" if any(kind in accept for kind in _LINES) else "sse"
