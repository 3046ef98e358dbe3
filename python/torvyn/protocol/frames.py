"""Frames: what a stream of one answer is made of, on every wire.

A stream is a `StartFrame`, then deltas and metas, at most one `ErrorFrame`, and exactly one
`EndFrame`. Frames are data: encoders turn them into bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

Kind = Literal["text", "reasoning", "tool_call"]
FilterSide = Literal["prompt", "completion"]
"""Where a guard ended an answer: in what was asked, or in what was answered."""
FinishReason = Literal["stop", "length", "content_filter", "tool_calls", "cancelled", "error"]

VERSION: Final = 1
"""Of our own dialect; the start frame carries it. A reader passes over types and members it does
not know, so only what changes the meaning of an old one makes a new version."""

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
    """Tokens of one request, all choices together."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A piece of a call of a tool: `id` and `name` come with the first one, arguments in parts."""

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
    """With `content_filter`: what was filtered."""
    native_reason: str | None = None
    """What the engine behind it calls that end, where its word is not ours."""


@dataclass(frozen=True, slots=True)
class StartFrame:
    """Which answer it is: its id, the flow or model that answers, and when, in Unix seconds."""

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
    """Why the stream cannot go on; open choices finish as `error`."""

    seq: int
    code: str
    message: str
    retryable: bool = False


@dataclass(frozen=True, slots=True)
class EndFrame:
    seq: int
    finish: tuple[Finish, ...]
    usage: Usage | None = None
    timing: Mapping[str, float] | None = None


@dataclass(frozen=True, slots=True)
class HeartbeatFrame:
    """Nothing to say, still here."""


Frame = StartFrame | DeltaFrame | MetaFrame | ErrorFrame | EndFrame | HeartbeatFrame
