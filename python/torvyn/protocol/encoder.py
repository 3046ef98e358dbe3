"""Encodes frames as bytes: three dialects, three framings, one encoder per answer.

    dialect     torvyn | openai-chat | openai-completions
    framing     sse (events) | lines (one JSON object per line) | json (one per message; torvyn)

`text` is the fast native path; `encode` takes any frame. The encoder numbers frames from 1 unless
they have a number. In Torvyn's dialect the last event of a frame has the id `<epoch>-<seq>`;
OpenAI's answers cannot be resumed, and some clients expect its events to begin with `data:`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from torvyn._native import FrameEncoder
from torvyn.protocol.frames import (
    DeltaFrame,
    EndFrame,
    ErrorFrame,
    Frame,
    MetaFrame,
    StartFrame,
    ToolCall,
    Usage,
)
from torvyn.protocol.openai.surrogate_pairs import encodable

Dialect = Literal["torvyn", "openai-chat", "openai-completions"]
Framing = Literal["sse", "lines", "json"]
_JSON: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


class Encoder(FrameEncoder):
    """Encodes the frames of one answer; the stages of all its choices share it."""

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
        """The encoder for the answer of a start frame."""
        identity = {"id": start.id, "flow": start.flow, "created": start.created, "epoch": "0"}
        return cls(dialect, framing, **{**identity, **more})

    def encode(self, frame: Frame) -> bytes:
        """Encodes a frame with its own number."""
        return encode_frame(self, frame)

    def error(
        self, code: str, message: str, retryable: bool = False, seq: int | None = None
    ) -> bytes:
        """An error frame; `code` and `message` may be any text."""
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
        """A delta frame: new text, or a piece of a tool call."""
        entries = None if logprobs is None else self._logprobs(logprobs)
        if kind != "tool_call":
            return self.text(text, index, kind, entries, seq)
        call = call or ToolCall()
        parts = (call.id, call.name, call.arguments)
        id, name, arguments = (None if part is None else encodable(part) for part in parts)
        return self.call((call.index, id, name, arguments or ""), index, entries, seq)

    def encode_end(self, end: EndFrame) -> bytes:
        finish: list[tuple[int, str, str | None, str | None, str | None]] = [
            (one.index, one.reason, _maybe(one.matched_stop), _maybe(one.stopped_by), one.side)
            for one in end.finish
        ]
        counts = None if end.usage is None else _counts(end.usage)
        timing = None if end.timing is None else to_json(end.timing)
        return self.end(finish, counts, timing, end.seq)

    def encode_usage(self, usage: Usage) -> bytes:
        """The usage before an error, for an OpenAI client that requested it: such a client stops
        reading at the error."""
        return self.usage(_counts(usage))

    def _logprobs(self, entries: Sequence[Mapping[str, Any]]) -> str:
        if self.dialect == "torvyn":
            return to_json([dict(entry) for entry in entries])
        if self.dialect == "openai-chat":
            return to_json({"content": [dict(entry) for entry in entries], "refusal": None})
        return to_json(columns(entries))


def encode_frame(encoder: Any, frame: Frame) -> bytes:
    """Encodes a frame with any encoder that has the methods of `Encoder`."""
    data: bytes
    match frame:
        case StartFrame():
            data = encoder.start()
        case DeltaFrame(seq, index, kind, text, call, logprobs):
            data = encoder.delta(index, kind, text, call, logprobs, seq)
        case MetaFrame(seq, meta):
            data = encoder.meta(to_json(meta), seq)
        case ErrorFrame(seq, code, message, retryable):
            data = encoder.error(code, message, retryable, seq)
        case EndFrame():
            data = encoder.encode_end(frame)
        case _:
            data = encoder.heartbeat()
    return data


def _counts(usage: Usage) -> tuple[int, int, int, int]:
    return (
        usage.prompt_tokens,
        usage.completion_tokens,
        usage.cached_tokens,
        usage.reasoning_tokens,
    )


def columns(entries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Log probabilities in the form of the completions API: one list per field."""
    tops = [entry.get("top_logprobs") for entry in entries]
    return {
        "tokens": [entry.get("token") for entry in entries],
        "token_logprobs": [entry.get("logprob") for entry in entries],
        "top_logprobs": [
            None if top is None else {one["token"]: one["logprob"] for one in top} for top in tops
        ],
    }


def to_json(value: Any) -> str:
    """One line of JSON that can be encoded as UTF-8, even with lone surrogates in it."""
    if isinstance(value, Mapping):
        value = dict(value)
    text = _JSON.encode(value)
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
