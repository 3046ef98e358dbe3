"""The whole answer: the concatenation of its pieces."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torvyn.protocol.frames import FilterSide, FinishReason, Kind, ToolCall, Usage


@dataclass(frozen=True, slots=True)
class Choice:
    """One whole answer."""

    index: int
    text: str
    finish_reason: FinishReason
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    logprobs: tuple[Mapping[str, Any], ...] | None = None
    matched_stop: str | None = None
    side: FilterSide | None = None
    """With `content_filter`: whether the prompt or the completion was filtered."""
    native_reason: str | None = None
    """The engine's own name for the finish, if it differs from ours."""


@dataclass(frozen=True, slots=True)
class Completion:
    """All choices of a request: its deltas, joined."""

    id: str
    choices: tuple[Choice, ...]
    usage: Usage
    timing: Mapping[str, float] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The text of the first choice."""
        return self.choices[0].text

    @property
    def finish_reason(self) -> FinishReason:
        return self.choices[0].finish_reason


class ChoiceBuilder:
    """Joins the pieces of one choice."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._calls: dict[int, tuple[str | None, str | None, list[str]]] = {}
        self._logprobs: list[Mapping[str, Any]] = []

    def add(
        self,
        kind: Kind,
        text: str,
        call: ToolCall | None,
        logprobs: tuple[Mapping[str, Any], ...] | None,
    ) -> None:
        if text:
            (self._reasoning if kind == "reasoning" else self._text).append(text)
        if call is not None:
            id, name, arguments = self._calls.get(call.index, (None, None, []))
            arguments.append(call.arguments)
            self._calls[call.index] = (id or call.id, name or call.name, arguments)
        if logprobs:
            self._logprobs += logprobs

    def build(
        self,
        index: int,
        reason: FinishReason,
        matched_stop: str | None,
        *,
        has_logprobs: bool,
        side: FilterSide | None = None,
    ) -> Choice:
        calls = sorted(self._calls.items())
        return Choice(
            index,
            "".join(self._text),
            reason,
            "".join(self._reasoning),
            tuple(ToolCall(at, id, name, "".join(parts)) for at, (id, name, parts) in calls),
            tuple(self._logprobs) if has_logprobs else None,
            matched_stop,
            side if reason == "content_filter" else None,
        )
