"""Decodes gRPC messages into frames, for clients: `decode(encode(x)) == x`.

Log probabilities have the form of the other dialects; `bytes` and `top_logprobs` are always set.
"""

from __future__ import annotations

import json
from typing import Any, Final

from torvyn.protocol.failures import bad_frame
from torvyn.protocol.frames import (
    FILTER_SIDES,
    DeltaFrame,
    EndFrame,
    ErrorFrame,
    FilterSide,
    Finish,
    Frame,
    HeartbeatFrame,
    Kind,
    MetaFrame,
    StartFrame,
    ToolCall,
    Usage,
)
from torvyn.protocol.proto_encoder import REASON_NUMBERS

_REASONS: Final = {number: reason for reason, number in REASON_NUMBERS.items()}


def frame_from_message(message: Any) -> Frame | None:
    """The frame of a message; None for an unknown type, which a later version may add."""
    match message.WhichOneof("frame"):
        case "start":
            start = message.start
            return StartFrame(start.id, start.flow, start.created, start.version)
        case "delta":
            return _delta(message.seq, message.delta)
        case "meta":
            return MetaFrame(message.seq, _data(message.meta.data_json))
        case "error":
            error = message.error
            return ErrorFrame(message.seq, error.code, error.message, error.retryable)
        case "end":
            return _end(message.seq, message.end)
        case "heartbeat":
            return HeartbeatFrame()
        case _:
            return None


def _delta(seq: int, delta: Any) -> DeltaFrame:
    content = delta.WhichOneof("content")
    kind: Kind = "reasoning" if content == "reasoning" else "text"
    text, call = getattr(delta, kind), None
    if content == "call":
        kind, piece = "tool_call", delta.call
        call = ToolCall(
            piece.index, _optional(piece, "id"), _optional(piece, "name"), arguments=piece.arguments
        )
    logprobs = tuple(_entry(logprob) | _top(logprob) for logprob in delta.logprobs) or None
    return DeltaFrame(seq, delta.index, kind, text, call, logprobs)


def _side(one: Any) -> FilterSide | None:
    """What was filtered; None for an unknown value, which a later version may add."""
    return next((side for side in FILTER_SIDES if side == one.side), None)


def _end(seq: int, end: Any) -> EndFrame:
    finish = tuple(
        Finish(
            one.index,
            _REASONS.get(one.reason, "stop"),
            _optional(one, "matched_stop"),
            _optional(one, "stopped_by"),
            side=_side(one),
        )
        for one in end.finish
    )
    usage = None
    if end.HasField("usage"):
        counts = ("prompt_tokens", "completion_tokens", "cached_tokens", "reasoning_tokens")
        usage = Usage(*(getattr(end.usage, name) for name in counts))
    return EndFrame(seq, finish, usage, dict(end.timing) or None)


def _entry(logprob: Any) -> dict[str, Any]:
    """A log probability in the form of the other dialects."""
    data = _optional(logprob, "token_bytes")
    entry = {
        "token": logprob.token,
        "logprob": _optional(logprob, "logprob"),
        "bytes": None if data is None else list(data),
    }
    return entry | ({"id": logprob.id} if logprob.HasField("id") else {})


def _top(logprob: Any) -> dict[str, Any]:
    return {"top_logprobs": [_entry(other) for other in logprob.top_logprobs]}


def _data(text: str) -> dict[str, Any]:
    try:
        return dict(json.loads(text))
    except (ValueError, TypeError, RecursionError) as error:
        raise bad_frame(f"{type(error).__name__} {error}", text) from None


def _optional(message: Any, name: str) -> Any:
    return getattr(message, name) if message.HasField(name) else None
