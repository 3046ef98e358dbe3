"""Routes about the server itself: what it offers, what runs, how it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from torvyn.transport.rejection import unknown_flow

if TYPE_CHECKING:
    from torvyn.transport.application import Application
    from torvyn.transport.http.exchange import HttpExchange

MODEL: Final = "/v1/models/"
FLOW: Final = "/flows/"
_PROMETHEUS: Final = "text/plain; version=0.0.4; charset=utf-8"


async def models(app: Application, exchange: HttpExchange) -> None:
    await exchange.answer({"object": "list", "data": [_model(app, name) for name in app.services]})


async def one_model(app: Application, exchange: HttpExchange) -> None:
    name, _ = app.service(exchange.path.removeprefix(MODEL))
    await exchange.answer(_model(app, name))


def _model(app: Application, name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": app.created, "owned_by": "torvyn"}


async def health(app: Application, exchange: HttpExchange) -> None:
    await exchange.answer({"status": "ok"})


async def ready(app: Application, exchange: HttpExchange) -> None:
    status, word = (503, "shutting down") if app.is_draining else (200, "ready")
    await exchange.answer({"status": word}, status)


async def flows(app: Application, exchange: HttpExchange) -> None:
    """What is counted of each flow, and what runs or has ended for this caller's tenant."""
    counted = [
        {"name": name, **app.meter.flows[name].to_dict(), **dict(service.engine.describe())}
        for name, service in app.services.items()
    ]
    streams = list(app.instances.running(exchange.caller))
    ended = list(app.instances.ended_lately(exchange.caller))
    await exchange.answer({"flows": counted, "streams": streams, "ended": ended})


async def one_flow(app: Application, exchange: HttpExchange) -> None:
    """One answer that is made, or was made lately, with what its flows have counted."""
    found = app.instances.find(exchange.path.removeprefix(FLOW), exchange.caller)
    if found is None:
        raise unknown_flow()
    await exchange.answer(found)


async def metrics(app: Application, exchange: HttpExchange) -> None:
    singles = {
        "torvyn_waiting": app.admission.waiting,
        "torvyn_refused_total": app.admission.refused,
        "torvyn_sessions": len(app.sessions),
        "torvyn_resumes_total": app.sessions.resumed,
    }
    if app.tracer is not None:
        singles["torvyn_spans_total"] = app.tracer.exporter.sent
        singles["torvyn_spans_dropped_total"] = app.tracer.exporter.dropped
    await exchange.answer(app.meter.prometheus(singles), kind=_PROMETHEUS)


async def openapi(app: Application, exchange: HttpExchange) -> None:
    from torvyn.transport.http.openapi import document

    made = document(list(app.services), exchange.root, app.access.has_keys)
    await exchange.answer(made)
