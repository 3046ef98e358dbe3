"""Frames as messages of gRPC (`torvyn/v1/inference.proto`) and back: `decode(encode(x)) == x`.

The encoder has the methods of `Encoder`; what it gives are serialized messages, one a frame. It
needs the package `protobuf`, which nothing else in this room does.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from torvyn.protocol.encoder import encodable, to_json
from torvyn.protocol.failure import bad_frame
from torvyn.protocol.frames import (
    FINISH_REASONS,
    VERSION,
    Delta,
    End,
    Error,
    Finish,
    Frame,
    Heartbeat,
    Kind,
    Meta,
    Start,
    ToolCall,
    Usage,
)
from torvyn.protocol.halves import Halves
from torvyn.v1 import inference_pb2 as pb

_REASON_NUMBERS: Final[dict[str, Any]] = {
    reason: pb.FinishReason.Value(f"FINISH_REASON_{reason.upper()}") for reason in FINISH_REASONS
}
_REASONS: Final = {number: reason for reason, number in _REASON_NUMBERS.items()}


class Led(bytes):
    """A frame and those that must go before it."""

    before: tuple[bytes, ...] = ()


def messages(frames: Iterable[bytes]) -> Iterator[bytes]:
    """Each message that is to be sent for these frames."""
    for frame in frames:
        if isinstance(frame, Led):
            yield from frame.before
        if frame:
            yield frame


class ProtoEncoder:
    """The frames of one answer as serialized messages: `Frame`, or with a `stream_id`
    `ServerMessage`."""

    __slots__ = ("_halves", "_identity", "_stream_id", "choices", "seq")

    def __init__(
        self,
        *,
        id: str,
        flow: str,
        created: int,
        epoch: str,
        choices: int = 1,
        stream_id: str | None = None,
        **_: Any,
    ) -> None:
        self._identity = (encodable(id), encodable(flow), created, epoch)
        self._stream_id = None if stream_id is None else encodable(stream_id)
        self._halves = Halves()
        self.choices = choices
        self.seq = 0
        """The number of the last frame; deltas count from 1."""

    def encode(self, frame: Frame) -> bytes:
        """A frame with the number it carries."""
        match frame:
            case Start():
                return self.start()
            case Delta():
                return self.delta(
                    frame.index, frame.kind, frame.text, frame.call, frame.logprobs, frame.seq
                )
            case Meta():
                return self.meta(to_json(frame.data), frame.seq)
            case Error():
                return self.error(frame.code, frame.message, frame.retryable, frame.seq)
            case End():
                return self._end(frame)
            case _:
                return self.heartbeat()

    def start(self) -> bytes:
        id, flow, created, epoch = self._identity
        start = pb.Start(id=id, flow=flow, created=created, version=VERSION, epoch=epoch)
        return self._bytes(pb.Frame(start=start))

    def heartbeat(self) -> bytes:
        return self._bytes(pb.Frame(heartbeat=pb.Heartbeat()))

    def text(
        self,
        text: str,
        index: int = 0,
        kind: str = "text",
        logprobs: Sequence[Mapping[str, Any]] | None = None,
        seq: int | None = None,
    ) -> bytes:
        """New text of a choice. The first half of a surrogate pair waits for the second."""
        text = self._halves.join((index, kind), text)
        odds = None if logprobs is None else [_odds(entry) for entry in logprobs]
        if not text and not odds and self._halves:
            return b""
        if kind == "reasoning":
            delta = pb.Delta(index=index, reasoning=text, logprobs=odds)
        else:
            delta = pb.Delta(index=index, text=text, logprobs=odds)
        return self._bytes(pb.Frame(seq=self._number(seq), delta=delta))

    def delta(
        self,
        index: int,
        kind: str,
        text: str,
        call: ToolCall | None = None,
        logprobs: Sequence[Mapping[str, Any]] | None = None,
        seq: int | None = None,
    ) -> bytes:
        """New text, or a piece of a call."""
        if kind != "tool_call":
            return self.text(text, index, kind, logprobs, seq)
        call = call or ToolCall()
        piece = pb.ToolCall(
            index=call.index,
            id=_maybe(call.id),
            name=_maybe(call.name),
            arguments=encodable(call.arguments),
        )
        odds = [_odds(entry) for entry in logprobs or ()]
        delta = pb.Delta(index=index, call=piece, logprobs=odds)
        return self._bytes(pb.Frame(seq=self._number(seq), delta=delta))

    def meta(self, data: str, seq: int | None = None) -> bytes:
        """`data` is JSON."""
        return self._bytes(pb.Frame(seq=self._number(seq), meta=pb.Meta(data_json=data)))

    def error(
        self, code: str, message: str, retryable: bool = False, seq: int | None = None
    ) -> bytes:
        before = self._released()
        error = pb.Error(code=encodable(code), message=encodable(message), retryable=retryable)
        number = self._number(None if before else seq)
        return self._bytes(pb.Frame(seq=number, error=error), before)

    def _end(self, end: End) -> bytes:
        before = self._released()
        finish = [
            pb.Finish(
                index=one.index,
                reason=_REASON_NUMBERS[one.reason],
                matched_stop=_maybe(one.matched_stop),
                stopped_by=_maybe(one.stopped_by),
            )
            for one in end.finish
        ]
        usage = None if end.usage is None else _usage(end.usage)
        number = self._number(None if before else end.seq)
        frame = pb.End(finish=finish, usage=usage, timing=end.timing)
        return self._bytes(pb.Frame(seq=number, end=frame), before)

    def _released(self) -> tuple[bytes, ...]:
        """What waited for a second half that never came."""
        if not self._halves:
            return ()
        alone = [
            (index, kind, text)
            for index in range(self.choices)
            for kind, text in self._halves.release(index)
        ]
        return tuple(self.text(text, index, kind) for index, kind, text in alone)

    def _number(self, given: int | None) -> int:
        self.seq = self.seq + 1 if given is None else given
        return self.seq

    def _bytes(self, frame: Any, before: tuple[bytes, ...] = ()) -> bytes:
        if self._stream_id is not None:
            frame = pb.ServerMessage(stream_id=self._stream_id, frame=frame)
        data: bytes = frame.SerializeToString()
        if before:
            data = Led(data)
            data.before = before
        return data


def frame_from_message(message: Any) -> Frame | None:
    """The frame of a `Frame`; None for one that a later version may have added."""
    match message.WhichOneof("frame"):
        case "start":
            start = message.start
            return Start(start.id, start.flow, start.created, start.version)
        case "delta":
            return _delta(message.seq, message.delta)
        case "meta":
            return Meta(message.seq, _data(message.meta.data_json))
        case "error":
            error = message.error
            return Error(message.seq, error.code, error.message, error.retryable)
        case "end":
            return _end(message.seq, message.end)
        case "heartbeat":
            return Heartbeat()
        case _:
            return None


def _delta(seq: int, delta: Any) -> Delta:
    content = delta.WhichOneof("content")
    kind: Kind = "reasoning" if content == "reasoning" else "text"
    text, call = getattr(delta, kind), None
    if content == "call":
        kind, piece = "tool_call", delta.call
        call = ToolCall(
            piece.index, _said(piece, "id"), _said(piece, "name"), arguments=piece.arguments
        )
    logprobs = tuple(_entry(odds) | _top(odds) for odds in delta.logprobs) or None
    return Delta(seq, delta.index, kind, text, call, logprobs)


def _end(seq: int, end: Any) -> End:
    finish = tuple(
        Finish(
            one.index,
            _REASONS.get(one.reason, "stop"),
            _said(one, "matched_stop"),
            _said(one, "stopped_by"),
        )
        for one in end.finish
    )
    usage = None
    if end.HasField("usage"):
        counts = ("prompt_tokens", "completion_tokens", "cached_tokens", "reasoning_tokens")
        usage = Usage(*(getattr(end.usage, name) for name in counts))
    return End(seq, finish, usage, dict(end.timing) or None)


def _usage(usage: Usage) -> Any:
    return pb.Usage(
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        total_tokens=usage.total_tokens,
        cached_tokens=usage.cached_tokens,
        reasoning_tokens=usage.reasoning_tokens,
    )


def _odds(entry: Mapping[str, Any]) -> Any:
    data, top = entry.get("bytes"), entry.get("top_logprobs") or ()
    return pb.TokenLogprob(
        token=encodable(str(entry.get("token", ""))),
        logprob=entry.get("logprob"),
        token_bytes=None if data is None else bytes(data),
        id=entry.get("id"),
        top_logprobs=[_odds(other) for other in top],
    )


def _entry(odds: Any) -> dict[str, Any]:
    """In the form that the other dialects have."""
    data = _said(odds, "token_bytes")
    entry = {
        "token": odds.token,
        "logprob": _said(odds, "logprob"),
        "bytes": None if data is None else list(data),
    }
    return entry | ({"id": odds.id} if odds.HasField("id") else {})


def _top(odds: Any) -> dict[str, Any]:
    return {"top_logprobs": [_entry(other) for other in odds.top_logprobs]}


def _data(text: str) -> dict[str, Any]:
    try:
        return dict(json.loads(text))
    except (ValueError, TypeError, RecursionError) as error:
        raise bad_frame(f"{type(error).__name__} {error}", text) from None


def _said(message: Any, name: str) -> Any:
    return getattr(message, name) if message.HasField(name) else None


def _maybe(text: str | None) -> str | None:
    return None if text is None else encodable(text)
