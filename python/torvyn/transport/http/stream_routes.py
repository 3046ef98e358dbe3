"""Routes about one stream: resume it, observe it, stop it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from torvyn.transport.http.inference_routes import framing
from torvyn.transport.rejection import Rejection
from torvyn.transport.sessions.session import ALL_READ
from torvyn.transport.wire import HttpWire

if TYPE_CHECKING:
    from torvyn.transport.dispatch.dispatcher import Dispatcher
    from torvyn.transport.http.exchange import HttpExchange
    from torvyn.transport.sessions.registry import SessionRegistry

STREAM: Final = "/v1/streams/"
_TRUE: Final = ("1", "true")


class StreamRoutes:
    def __init__(self, dispatcher: Dispatcher, sessions: SessionRegistry) -> None:
        self._dispatcher = dispatcher
        self._sessions = sessions

    async def read(self, exchange: HttpExchange) -> None:
        """The rest of a session; with `observe`, what any stream sends from now on."""
        id = exchange.path.removeprefix(STREAM)
        wire = HttpWire(exchange, framing(exchange))
        if exchange.query.get("observe") in _TRUE:
            await self._dispatcher.observe(wire, id)
            return
        after = exchange.headers.get("last-event-id") or exchange.query.get("after")
        try:
            await self._dispatcher.resume(wire, id, after)
        except Rejection as rejection:
            if rejection.code != ALL_READ:
                raise
            # A browser's EventSource reconnects until it gets a 204.
            await exchange.answer(b"", 204)

    async def stop(self, exchange: HttpExchange) -> None:
        """Stops or cancels a stream. A session whose answer has ended is deleted."""
        id = exchange.path.removeprefix(STREAM)
        is_cancelled = exchange.query.get("cancel") in _TRUE
        call = self._dispatcher.running.find(id, exchange.caller)
        if call is not None:
            done = await self._sessions.stop(call, is_cancelled)
        else:
            self._dispatcher.require_sessions()
            done = await self._sessions.stop_stored(id, exchange.caller, is_cancelled)
        await exchange.answer({"id": id, **done}, 200 if "forgotten" in done else 202)
