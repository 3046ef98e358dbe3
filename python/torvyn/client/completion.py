"""Frames -> one completion: the same whole that a generation in the process gives."""

from __future__ import annotations

from collections.abc import Mapping

from torvyn.protocol.completion import Completion, Parts
from torvyn.protocol.frames import DeltaFrame, EndFrame, Usage


class Joined:
    """Takes deltas as they come; gives the completion at the end."""

    def __init__(self) -> None:
        self._parts: dict[int, Parts] = {}
        self._has_logprobs = False

    def add(self, delta: DeltaFrame) -> None:
        parts = self._parts.setdefault(delta.index, Parts())
        parts.add(delta.kind, delta.text, delta.call, delta.logprobs)
        self._has_logprobs = self._has_logprobs or delta.logprobs is not None

    def completion(self, id: str, end: EndFrame, timing: Mapping[str, float]) -> Completion:
        choices = tuple(
            self._parts.get(one.index, Parts()).choice(
                one.index,
                one.reason,
                one.matched_stop,
                has_logprobs=self._has_logprobs,
                side=one.side,
            )
            for one in sorted(end.finish, key=lambda one: one.index)
        )
        return Completion(id, choices, end.usage or Usage(), timing)
