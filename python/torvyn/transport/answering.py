"""Routes that flows answer: ours and OpenAI's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from torvyn.protocol.encoder import Framing
from torvyn.transport import asked
from torvyn.transport.wire import HttpWire

if TYPE_CHECKING:
    from torvyn.transport.application import Application
    from torvyn.transport.asked import Asked
    from torvyn.transport.exchange import Exchange

_LINES: Final = ("application/x-ndjson", "application/jsonl")


async def own(app: Application, exchange: Exchange) -> None:
    await _answer(app, exchange, asked.own(await exchange.body(app.settings)))


async def chat(app: Application, exchange: Exchange) -> None:
    await _answer(app, exchange, asked.chat(await exchange.body(app.settings)))


async def completions(app: Application, exchange: Exchange) -> None:
    await _answer(app, exchange, asked.completions(await exchange.body(app.settings)))


async def _answer(app: Application, exchange: Exchange, wanted: Asked) -> None:
    await app.answer(HttpWire(exchange, framing(exchange, wanted.dialect == "torvyn")), wanted)


def framing(exchange: Exchange, may_be_lines: bool = True) -> Framing:
    """How the frames should be laid out, as the client says."""
    accept = exchange.headers.get("accept", "")
    if not may_be_lines or "text/event-stream" in accept:
        return "sse"
    return "lines" if any(kind in accept for kind in _LINES) else "sse"
