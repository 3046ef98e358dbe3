"""Pieces -> one completion. Law: the whole is the concatenation of its pieces."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from torvyn.engine.delta import Completion, Piece, as_delta
from torvyn.engine.request import Request
from torvyn.protocol.completion import ChoiceBuilder
from torvyn.protocol.frames import FilterSide, FinishReason, Usage


class CompletionBuilder:
    """A reader that joins the pieces of an answer."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._choices = [ChoiceBuilder() for _ in range(request.n)]
        self._ends: dict[int, tuple[FinishReason, str | None]] = {}
        self._native: dict[int, str] = {}

    def add(self, piece: Piece) -> bool:
        delta = as_delta(piece)
        self._choices[delta.index].add(delta.kind, delta.text, delta.call, delta.logprobs)
        if delta.finish_reason is not None:
            self._ends[delta.index] = (delta.finish_reason, delta.matched_stop)
            if delta.native_reason is not None:
                self._native[delta.index] = delta.native_reason
        return False

    def flush(self) -> None:
        return None

    def completion(
        self, usage: Usage, timing: Mapping[str, float], side: FilterSide | None = None
    ) -> Completion:
        """`side`: where guards ended choices as `content_filter`."""
        has_logprobs = self._request.logprobs
        choices = tuple(
            choice.build(
                index,
                *self._ends.get(index, ("cancelled", None)),
                has_logprobs=has_logprobs,
                side=side,
            )
            for index, choice in enumerate(self._choices)
        )
        if self._native:
            native = self._native
            choices = tuple(replace(one, native_reason=native.get(one.index)) for one in choices)
        return Completion(self._request.id, choices, usage, timing)
