"""The span of a call: how it ended and for whom, without any text."""

from __future__ import annotations

from torvyn._observe.spans import Tracer
from torvyn.transport.call import Call


def record_span(tracer: Tracer, call: Call, provider: str) -> None:
    """Records a call that has ended; `provider` is the engine."""
    failure = call.failure
    reasons = enumerate(call.answer.finish_reasons)
    attributes = {
        "gen_ai.provider.name": provider,
        "gen_ai.response.finish_reasons": [
            call.finish(index, reason, None).reason for index, reason in reasons
        ],
        "torvyn.request_id": call.id,
        "torvyn.dialect": call.request.dialect,
        "torvyn.tenant": call.wire.caller.tenant,
    }
    if (side := call.answer.filtered_side) is not None:
        attributes["torvyn.content_filter.side"] = side
    message = call.message_of(failure) if failure is not None else ""
    tracer.record_answer(
        call.trace,
        call.answer,
        flow=call.flow,
        attributes=attributes,
        failure=failure,
        message=message,
    )
