"""Routes that services answer: Torvyn's own and OpenAI's."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from torvyn.protocol.encoder import Framing
from torvyn.transport import request_body
from torvyn.transport.wire import HttpWire

if TYPE_CHECKING:
    from torvyn.transport.dispatch.dispatcher import Dispatcher
    from torvyn.transport.http.body_limit import BodyBudget
    from torvyn.transport.http.exchange import HttpExchange
    from torvyn.transport.request_body import InferenceRequest

_LINES: Final = ("application/x-ndjson", "application/jsonl")


class InferenceRoutes:
    def __init__(self, dispatcher: Dispatcher, bodies: BodyBudget) -> None:
        self._dispatcher = dispatcher
        self._bodies = bodies

    async def stream(self, exchange: HttpExchange) -> None:
        await self._answer(exchange, request_body.parse_torvyn)

    async def chat(self, exchange: HttpExchange) -> None:
        await self._answer(exchange, request_body.parse_chat)

    async def completions(self, exchange: HttpExchange) -> None:
        await self._answer(exchange, request_body.parse_completions)

    async def _answer(
        self, exchange: HttpExchange, parse: Callable[[dict[str, Any]], InferenceRequest]
    ) -> None:
        request = parse(await exchange.body(self._dispatcher.settings, self._bodies))
        wire = HttpWire(exchange, framing(exchange, request.dialect == "torvyn"))
        await self._dispatcher.answer(wire, request)


def framing(exchange: HttpExchange, may_be_lines: bool = True) -> Framing:
    """Server-sent events or JSON lines, as the `Accept` header says."""
    accept = exchange.headers.get("accept", "")
    if not may_be_lines or "text/event-stream" in accept:
        return "sse"
    return "lines" if any(kind in accept for kind in _LINES) else "sse"
