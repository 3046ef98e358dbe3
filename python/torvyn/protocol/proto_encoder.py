"""Encodes frames as gRPC messages (`torvyn/v1/inference.proto`), one message per frame.

The encoder has the methods of `Encoder`. Only this module and `proto_decoder` need `protobuf`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Self

from torvyn._native import MessageEncoder
from torvyn.protocol.decoder import frame_from
from torvyn.protocol.encoder import encode_frame
from torvyn.protocol.frames import (
    FINISH_REASONS,
    VERSION,
    DeltaFrame,
    EndFrame,
    FinishReason,
    Frame,
    StartFrame,
    ToolCall,
    Usage,
)
from torvyn.protocol.openai.surrogate_pairs import REPLACEMENT, encodable
from torvyn.v1 import inference_pb2 as pb

REASON_NUMBERS: Final[dict[FinishReason, Any]] = {
    reason: pb.FinishReason.Value(f"FINISH_REASON_{reason.upper()}") for reason in FINISH_REASONS
}


class PrefixedFrame(bytes):
    """A frame with the frames that must be sent before it."""

    before: tuple[bytes, ...] = ()

    @classmethod
    def of(cls, data: bytes, before: tuple[bytes, ...]) -> Self:
        frame = cls(data)
        frame.before = before
        return frame


def messages(frames: Iterable[bytes]) -> Iterator[bytes]:
    """Every message to send for these frames."""
    for frame in frames:
        if isinstance(frame, PrefixedFrame):
            yield from frame.before
        if frame:
            yield frame


def message_from_json(frame: bytes, epoch: str) -> bytes:
    """A frame of our own dialect, as JSON, encoded as a message."""
    decoded = frame_from(json.loads(frame))
    start = decoded if isinstance(decoded, StartFrame) else StartFrame("", "", 0)
    choices = decoded.index + 1 if isinstance(decoded, DeltaFrame) else 1
    encoder = ProtoEncoder(
        id=start.id, flow=start.flow, created=start.created, epoch=epoch, choices=choices
    )
    return b"" if decoded is None else encoder.encode(decoded)


class ProtoEncoder(MessageEncoder):
    """Encodes the frames of one answer as serialized messages. `encode_text` is the fast native
    path."""

    __slots__ = ("_identity",)
    _identity: tuple[str, str, int, str]

    def __new__(
        cls,
        *,
        id: str,
        flow: str,
        created: int,
        epoch: str,
        choices: int = 1,
        **_: Any,
    ) -> Self:
        encoder = super().__new__(cls, choices)
        encoder._identity = (encodable(id), encodable(flow), created, epoch)
        return encoder

    def encode(self, frame: Frame) -> bytes:
        """Encodes a frame with its own number."""
        return encode_frame(self, frame)

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
        """New text of a choice. The first half of a surrogate pair is kept until the second."""
        if logprobs is None:
            return self.encode_text(text, index, kind, seq)
        text = self.join(text, index)
        tokens = [_logprob(entry) for entry in logprobs]
        if kind == "reasoning":
            delta = pb.Delta(index=index, reasoning=text, logprobs=tokens)
        else:
            delta = pb.Delta(index=index, text=text, logprobs=tokens)
        return self._bytes(pb.Frame(seq=self.number(seq), delta=delta))

    def delta(
        self,
        index: int,
        kind: str,
        text: str,
        call: ToolCall | None = None,
        logprobs: Sequence[Mapping[str, Any]] | None = None,
        seq: int | None = None,
    ) -> bytes:
        """A delta frame: new text, or a piece of a tool call."""
        if kind != "tool_call":
            return self.text(text, index, kind, logprobs, seq)
        call = call or ToolCall()
        piece = pb.ToolCall(
            index=call.index,
            id=_maybe(call.id),
            name=_maybe(call.name),
            arguments=encodable(call.arguments),
        )
        tokens = [_logprob(entry) for entry in logprobs or ()]
        delta = pb.Delta(index=index, call=piece, logprobs=tokens)
        return self._bytes(pb.Frame(seq=self.number(seq), delta=delta))

    def meta(self, data: str, seq: int | None = None) -> bytes:
        """`data` is JSON."""
        return self._bytes(pb.Frame(seq=self.number(seq), meta=pb.Meta(data_json=data)))

    def error(
        self, code: str, message: str, retryable: bool = False, seq: int | None = None
    ) -> bytes:
        before = self._released()
        error = pb.Error(code=encodable(code), message=encodable(message), retryable=retryable)
        number = self.number(None if before else seq)
        return self._bytes(pb.Frame(seq=number, error=error), before)

    def encode_end(self, end: EndFrame) -> bytes:
        before = self._released()
        finish = [
            pb.Finish(
                index=one.index,
                reason=REASON_NUMBERS[one.reason],
                matched_stop=_maybe(one.matched_stop),
                stopped_by=_maybe(one.stopped_by),
                side=one.side,
            )
            for one in end.finish
        ]
        usage = None if end.usage is None else _usage(end.usage)
        number = self.number(None if before else end.seq)
        frame = pb.End(finish=finish, usage=usage, timing=end.timing)
        return self._bytes(pb.Frame(seq=number, end=frame), before)

    def _released(self) -> tuple[bytes, ...]:
        """Frames for first halves whose second half never arrived."""
        return tuple(self.encode_text(REPLACEMENT, index) for index in self.release())

    def _bytes(self, frame: Any, before: tuple[bytes, ...] = ()) -> bytes:
        data: bytes = frame.SerializeToString()
        return PrefixedFrame.of(data, before) if before else data


def _usage(usage: Usage) -> Any:
    return pb.Usage(
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        total_tokens=usage.total_tokens,
        cached_tokens=usage.cached_tokens,
        reasoning_tokens=usage.reasoning_tokens,
    )


def _logprob(entry: Mapping[str, Any]) -> Any:
    data, top = entry.get("bytes"), entry.get("top_logprobs") or ()
    return pb.TokenLogprob(
        token=encodable(str(entry.get("token", ""))),
        logprob=entry.get("logprob"),
        token_bytes=None if data is None else bytes(data),
        id=entry.get("id"),
        top_logprobs=[_logprob(other) for other in top],
    )


def _maybe(text: str | None) -> str | None:
    return None if text is None else encodable(text)
