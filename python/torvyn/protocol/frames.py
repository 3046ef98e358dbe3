"""Frames: the messages of a streamed answer, on every wire.

A stream is a `StartFrame`, then deltas and metas, at most one `ErrorFrame`, and exactly one
`EndFrame`. Frames are data: encoders turn them into bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

Kind = Literal["text", "reasoning", "tool_call"]
FilterSide = Literal["prompt", "completion"]
"""Where a guard ended an answer: in the prompt or in the completion."""
FinishReason = Literal["stop", "length", "content_filter", "tool_calls", "cancelled", "error"]

VERSION: Final = 1
"""The version of our own dialect, in the start frame. Readers ignore unknown types and members, so
it grows only if the meaning of an old one changes."""

KINDS: Final[tuple[Kind, ...]] = ("text", "reasoning", "tool_call")
FINISH_REASONS: Final[tuple[FinishReason, ...]] = (
    "stop",
    "length",
    "content_filter",
    "tool_calls",
    "cancelled",
    "error",
)
FILTER_SIDES: Final[tuple[FilterSide, ...]] = ("prompt", "completion")


@dataclass(frozen=True, slots=True)
class Usage:
    """The token counts of one request, over all choices."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A piece of a tool call: the first one has `id` and `name`; `arguments` come in pieces."""

    index: int = 0
    id: str | None = None
    name: str | None = None
    arguments: str = ""


@dataclass(frozen=True, slots=True)
class Finish:
    """How one choice ended."""

    index: int
    reason: FinishReason
    matched_stop: str | None = None
    stopped_by: str | None = None
    side: FilterSide | None = None
    """With `content_filter`: whether the prompt or the completion was filtered."""
    native_reason: str | None = None
    """The engine's own name for the finish, if it differs from ours."""


@dataclass(frozen=True, slots=True)
class StartFrame:
    """The id of the answer, the flow or model that answers, and the time in Unix seconds."""

    id: str
    flow: str
    created: int
    version: int = VERSION


@dataclass(frozen=True, slots=True)
class DeltaFrame:
    """What is new in one choice. `text` for text and reasoning, `call` for a tool call."""

    seq: int
    index: int = 0
    kind: Kind = "text"
    text: str = ""
    call: ToolCall | None = None
    logprobs: tuple[Mapping[str, Any], ...] | None = None


@dataclass(frozen=True, slots=True)
class MetaFrame:
    seq: int
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ErrorFrame:
    """An error that ends the stream; open choices finish as `error`."""

    seq: int
    code: str
    message: str
    retryable: bool = False
    status: int | None = field(default=None, compare=False)
    """The HTTP status that the error of an upstream names. It is not sent to clients."""


@dataclass(frozen=True, slots=True)
class EndFrame:
    seq: int
    finish: tuple[Finish, ...]
    usage: Usage | None = None
    timing: Mapping[str, float] | None = None


@dataclass(frozen=True, slots=True)
class HeartbeatFrame:
    """Keeps an idle connection open."""


Frame = StartFrame | DeltaFrame | MetaFrame | ErrorFrame | EndFrame | HeartbeatFrame
