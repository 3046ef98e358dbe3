"""Builds a `Completion` from a stream's frames: the same one that a local generation gives."""

from __future__ import annotations

from collections.abc import Mapping

from torvyn.protocol.completion import ChoiceBuilder, Completion
from torvyn.protocol.frames import DeltaFrame, EndFrame, Usage


class CompletionBuilder:
    def __init__(self) -> None:
        self._choices: dict[int, ChoiceBuilder] = {}
        self._has_logprobs = False

    def add(self, delta: DeltaFrame) -> None:
        choice = self._choices.setdefault(delta.index, ChoiceBuilder())
        choice.add(delta.kind, delta.text, delta.call, delta.logprobs)
        self._has_logprobs = self._has_logprobs or delta.logprobs is not None

    def completion(self, id: str, end: EndFrame, timing: Mapping[str, float]) -> Completion:
        choices = tuple(
            self._choices.get(finish.index, ChoiceBuilder()).build(
                finish.index,
                finish.reason,
                finish.matched_stop,
                has_logprobs=self._has_logprobs,
                side=finish.side,
            )
            for finish in sorted(end.finish, key=lambda finish: finish.index)
        )
        return Completion(id, choices, end.usage or Usage(), timing)
