"""Routes about one stream: come back to it, watch it, stop it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from torvyn.transport.http.inference_routes import framing
from torvyn.transport.rejection import Rejection
from torvyn.transport.sessions.session import ALL_READ
from torvyn.transport.wire import HttpWire

if TYPE_CHECKING:
    from torvyn.transport.application import Application
    from torvyn.transport.http.exchange import HttpExchange

STREAM: Final = "/v1/streams/"
_YES: Final = ("1", "true")


async def read(app: Application, exchange: HttpExchange) -> None:
    """The rest of a stateful stream, or with `observe` what happens in any."""
    id = exchange.path.removeprefix(STREAM)
    wire = HttpWire(exchange, framing(exchange))
    if exchange.query.get("observe") in _YES:
        await app.observe(wire, id)
        return
    after = exchange.headers.get("last-event-id") or exchange.query.get("after")
    try:
        await app.resume(wire, id, after)
    except Rejection as rejection:
        if rejection.code != ALL_READ:
            raise
        # A browser's EventSource asks again and again until it is told that there is no more.
        await exchange.answer(b"", 204)


async def stop(app: Application, exchange: HttpExchange) -> None:
    """Stops a stream, or cancels it. One that has ended and is kept is forgotten."""
    id = exchange.path.removeprefix(STREAM)
    call = app.call(id, exchange.caller)
    if call is None:
        await app.sessions.forget(await app.sessions.find(id, exchange.caller))
        await exchange.answer({"id": id, "forgotten": True})
        return
    is_cancelled = exchange.query.get("cancel") in _YES
    call.cancel() if is_cancelled else call.stop()
    await exchange.answer({"id": id, "cancelled" if is_cancelled else "stopped": True}, 202)
