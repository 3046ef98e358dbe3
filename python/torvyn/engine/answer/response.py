"""Response processing: an engine's steps -> deltas of text, one machine a choice.

Every choice gets exactly one finish reason, and what was generated is counted whatever ends it.
Pure: no clock, no I/O, no loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torvyn.engine.answer.choice_text import ChoiceText, wrong_step
from torvyn.engine.delta import Delta
from torvyn.engine.request import Request
from torvyn.engine.step import Step
from torvyn.protocol.frames import FinishReason, Usage


class Response:
    """All choices of one request."""

    __slots__ = (
        "_is_early",
        "_told",
        "choices",
        "is_cut",
        "plain",
    )

    def __init__(self, request: Request, vocabulary: Any = None, *, is_limited: bool = False):
        """`is_limited`: the engine itself keeps to `max_tokens`, and its counts are estimates."""
        limit = None if is_limited else request.max_tokens
        self.choices = [ChoiceText(index, request, vocabulary, limit) for index in range(request.n)]
        is_plain = request.n == 1 and not request.logprobs
        self.plain: Callable[[Step], str | None] = self.choices[0].plain if is_plain else _never
        """The text a step adds to the only choice, when that is all. None: it is for `take`."""
        self._told: Usage | None = None
        self._is_early = False
        self.is_cut = False
        """Every choice has finished, and not all of them because the engine said so."""

    def take(self, step: Step) -> list[Delta]:
        """What the step adds. Nothing for choices that have finished."""
        if step.usage is not None:
            self._told = step.usage
        out: list[Delta] = []
        for part in step.choices:
            if not 0 <= part.index < len(self.choices):
                raise wrong_step(f"a choice {part.index} of {len(self.choices)}")
            choice = self.choices[part.index]
            if choice.is_changed and choice.finish_reason is None:
                choice.heed(out)
                self._settle()
            if choice.finish_reason is None:
                choice.take(part, out)
                if choice.finish_reason is not None:
                    self._settle()
        return out

    def update(self, request: Request, *, is_stop: bool, is_limit: bool) -> bool:
        """What holds from now on; whether every choice has by that all it may have."""
        alive = [choice for choice in self.choices if choice.finish_reason is None]
        for choice in alive:
            choice.update(request, is_stop=is_stop, is_limit=is_limit)
        return all(choice.is_due for choice in alive)

    def end(self, reason: FinishReason = "stop", *, is_early: bool = False) -> list[Delta]:
        """The last deltas: a finish for every open choice, then the usage. `is_early`: the engine
        would have gone on, and what it told of the usage is not the whole."""
        self._is_early = is_early
        out: list[Delta] = []
        for choice in self.choices:
            choice.end(reason, out, keeps_held=reason != "cancelled")
        out.append(Delta(usage=self.usage))
        return out

    @property
    def finish_reasons(self) -> tuple[FinishReason | None, ...]:
        return tuple(choice.finish_reason for choice in self.choices)

    @property
    def usage(self) -> Usage:
        """What the engine tells at its own end; what was seen, when it was ended before."""
        told = self._told or Usage()
        was_ended = self._is_early or any(self._was_ended(choice) for choice in self.choices)
        if self._told is not None and not was_ended:
            return told
        return Usage(
            told.prompt_tokens,
            max(told.completion_tokens, sum(choice.tokens for choice in self.choices)),
            told.cached_tokens,
            max(told.reasoning_tokens, sum(c.reasoning_tokens for c in self.choices)),
        )

    def _was_ended(self, choice: ChoiceText) -> bool:
        return choice.is_cut or choice.finish_reason in (None, "cancelled", "error")

    def _settle(self) -> None:
        finished = all(choice.finish_reason is not None for choice in self.choices)
        self.is_cut = finished and any(choice.is_cut for choice in self.choices)


def _never(step: Step) -> str | None:
    return None
