"""Frames into bytes: three dialects, three framings, one encoder an answer.

    dialect     torvyn | openai-chat | openai-completions
    framing     sse (events) | lines (one JSON object a line) | json (one object a message; torvyn)

`text` is the native quick path; `encode` takes any frame. Frames are numbered from 1 by the encoder
unless they carry a number; the last block of a frame has the event id `<epoch>-<seq>`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from torvyn._native import FrameEncoder
from torvyn.protocol.frames import (
    DeltaFrame,
    EndFrame,
    ErrorFrame,
    Frame,
    MetaFrame,
    StartFrame,
    ToolCall,
)
from torvyn.protocol.openai.surrogate_pairs import encodable

Dialect = Literal["torvyn", "openai-chat", "openai-completions"]
Framing = Literal["sse", "lines", "json"]


class Encoder(FrameEncoder):
    """The frames of one answer as bytes; shared by the stages of all its choices."""

    dialect: Dialect

    def __new__(cls, dialect: Dialect, framing: Framing = "sse", **identity: Any) -> Encoder:
        clean: dict[str, Any] = {
            name: encodable(value) if isinstance(value, str) else value
            for name, value in identity.items()
        }
        encoder = super().__new__(cls, dialect, framing, **clean)
        encoder.dialect = dialect
        return encoder

    @classmethod
    def of(
        cls, start: StartFrame, dialect: Dialect, framing: Framing = "sse", **more: Any
    ) -> Encoder:
        """The encoder of the answer that a start frame begins."""
        given = {"id": start.id, "flow": start.flow, "created": start.created, "epoch": "0", **more}
        return cls(dialect, framing, **given)

    def encode(self, frame: Frame) -> bytes:
        """A frame with the number it carries."""
        return encode_frame(self, frame)

    def error(
        self, code: str, message: str, retryable: bool = False, seq: int | None = None
    ) -> bytes:
        """Why the answer cannot go on; the words may come from anywhere."""
        return super().error(encodable(code), encodable(message), retryable, seq)

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
        odds = None if logprobs is None else self._logprobs(logprobs)
        if kind != "tool_call":
            return self.text(text, index, kind, odds, seq)
        call = call or ToolCall()
        parts = (call.id, call.name, call.arguments)
        id, name, arguments = (None if part is None else encodable(part) for part in parts)
        return self.call((call.index, id, name, arguments or ""), index, odds, seq)

    def encode_end(self, end: EndFrame) -> bytes:
        finish: list[tuple[int, str, str | None, str | None, str | None]] = [
            (one.index, one.reason, _maybe(one.matched_stop), _maybe(one.stopped_by), one.side)
            for one in end.finish
        ]
        usage = end.usage
        counts = None
        if usage is not None:
            counts = (
                usage.prompt_tokens,
                usage.completion_tokens,
                usage.cached_tokens,
                usage.reasoning_tokens,
            )
        timing = None if end.timing is None else to_json(end.timing)
        return self.end(finish, counts, timing, end.seq)

    def _logprobs(self, entries: Sequence[Mapping[str, Any]]) -> str:
        if self.dialect == "torvyn":
            return to_json([dict(entry) for entry in entries])
        if self.dialect == "openai-chat":
            return to_json({"content": [dict(entry) for entry in entries], "refusal": None})
        return to_json(columns(entries))


def encode_frame(encoder: Any, frame: Frame) -> bytes:
    """A frame by whoever has these methods."""
    made: bytes
    match frame:
        case StartFrame():
            made = encoder.start()
        case DeltaFrame(seq, index, kind, text, call, logprobs):
            made = encoder.delta(index, kind, text, call, logprobs, seq)
        case MetaFrame(seq, data):
            made = encoder.meta(to_json(data), seq)
        case ErrorFrame(seq, code, message, retryable):
            made = encoder.error(code, message, retryable, seq)
        case EndFrame():
            made = encoder.encode_end(frame)
        case _:
            made = encoder.heartbeat()
    return made


def columns(entries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Log probabilities in the form of completions: one list a field."""
    tops = [entry.get("top_logprobs") for entry in entries]
    return {
        "tokens": [entry.get("token") for entry in entries],
        "token_logprobs": [entry.get("logprob") for entry in entries],
        "top_logprobs": [
            None if top is None else {one["token"]: one["logprob"] for one in top} for top in tops
        ],
    }


def to_json(value: Any) -> str:
    """One line of JSON that can be encoded, whatever halves of pairs are in it."""
    if isinstance(value, Mapping):
        value = dict(value)
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":"))
    for character in "\x85\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _maybe(text: str | None) -> str | None:
    return None if text is None else encodable(text)
