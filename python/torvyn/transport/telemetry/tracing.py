"""What a tracer is told of a call: how it ended, for whom, and nothing of what was said."""

from __future__ import annotations

from torvyn.observe.spans import Tracer
from torvyn.transport.call import Call


def tell(tracer: Tracer, call: Call, provider: str) -> None:
    """The call is over; `provider` is the engine that answered."""
    failure = call.failure
    reasons = enumerate(call.generation.finish_reasons)
    more = {
        "gen_ai.provider.name": provider,
        "gen_ai.response.finish_reasons": [
            call.finish(index, reason, None).reason for index, reason in reasons
        ],
        # The id of a stream is left out: whoever knows it can stop the stream.
        "torvyn.request_id": call.wire.request_id,
        "torvyn.dialect": call.request.dialect,
        "torvyn.tenant": call.wire.caller.tenant,
    }
    if (side := call.generation.filtered_side) is not None:
        more["torvyn.content_filter.side"] = side
    message = call.message_of(failure) if failure is not None else ""
    tracer.ended(
        call.trace, call.generation, flow=call.flow, more=more, failure=failure, message=message
    )
