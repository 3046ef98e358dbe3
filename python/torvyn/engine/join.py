"""Deltas -> one completion. Law: the whole is the concatenation of its parts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torvyn.engine.delta import Choice, Completion, Delta
from torvyn.engine.request import Request
from torvyn.protocol.frames import FinishReason, ToolCall, Usage


class _Parts:
    """What came for one choice so far."""

    def __init__(self) -> None:
        self.text: list[str] = []
        self.reasoning: list[str] = []
        self.calls: dict[int, tuple[str | None, str | None, list[str]]] = {}
        self.logprobs: list[Mapping[str, Any]] = []
        self.finish_reason: FinishReason | None = None
        self.matched_stop: str | None = None

    def call(self, piece: ToolCall) -> None:
        id, name, arguments = self.calls.get(piece.index, (None, None, []))
        arguments.append(piece.arguments)
        self.calls[piece.index] = (id or piece.id, name or piece.name, arguments)


class Joined:
    """Takes deltas as they come; gives the completion at the end."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._parts = [_Parts() for _ in range(request.n)]

    def add(self, delta: Delta) -> None:
        parts = self._parts[delta.index]
        if delta.delta_text:
            (parts.reasoning if delta.kind == "reasoning" else parts.text).append(delta.delta_text)
        if delta.call is not None:
            parts.call(delta.call)
        if delta.logprobs:
            parts.logprobs += delta.logprobs
        if delta.finish_reason is not None:
            parts.finish_reason, parts.matched_stop = delta.finish_reason, delta.matched_stop

    def completion(self, usage: Usage, timing: Mapping[str, float]) -> Completion:
        choices = tuple(self._choice(index, parts) for index, parts in enumerate(self._parts))
        return Completion(self._request.id, choices, usage, timing)

    def _choice(self, index: int, parts: _Parts) -> Choice:
        calls = sorted(parts.calls.items())
        return Choice(
            index,
            "".join(parts.text),
            parts.finish_reason or "cancelled",
            "".join(parts.reasoning),
            tuple(ToolCall(at, id, name, "".join(parts)) for at, (id, name, parts) in calls),
            tuple(parts.logprobs) if self._request.logprobs else None,
            parts.matched_stop,
        )
