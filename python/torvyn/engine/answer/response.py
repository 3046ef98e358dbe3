"""Steps of an engine -> pieces of an answer, through one text machine per choice.

Every choice gets exactly one finish reason, and usage is counted however the answer ends. Pure: no
clock, no I/O, no loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torvyn.engine.answer.choice_text import ChoiceText, invalid_step
from torvyn.engine.delta import Delta, Piece
from torvyn.engine.request import Request
from torvyn.engine.step import Step
from torvyn.protocol.frames import FinishReason, Usage


class Response:
    """All choices of one request."""

    __slots__ = ("_engine_usage", "_is_early", "_plain_text", "choices", "is_cut")

    def __init__(self, request: Request, vocabulary: Any = None, *, is_limited: bool = False):
        """`is_limited`: the engine itself keeps to `max_tokens`, and its counts are estimates. What
        it generates beyond that many is cut."""
        most = request.max_tokens
        limits = (None, most) if is_limited else (most, None)
        self.choices = [
            ChoiceText(index, request, vocabulary, *limits) for index in range(request.n)
        ]
        has_plain_text = request.n == 1 and not request.logprobs
        self._plain_text = self.choices[0].plain_text if has_plain_text else _no_text
        self._engine_usage: Usage | None = None
        self._is_early = False
        self.is_cut = False
        """Every choice has finished, and not all of them because the engine finished them."""

    def pieces(self, step: Step) -> Sequence[Piece]:
        """What the step adds; nothing for choices that have finished."""
        text = self._plain_text(step)
        if text is not None:
            return (text,) if text else ()
        if step.usage is not None:
            self._engine_usage = step.usage
        out: list[Piece] = []
        for part in step.choices:
            if not 0 <= part.index < len(self.choices):
                raise invalid_step(f"choice {part.index} of {len(self.choices)}")
            choice = self.choices[part.index]
            if choice.is_changed and choice.finish_reason is None:
                choice.apply_update(out)
                self._settle()
            if choice.finish_reason is None:
                choice.add(part, out)
                if choice.finish_reason is not None:
                    self._settle()
        return out

    def update(self, request: Request, *, is_stop: bool, is_limit: bool) -> bool:
        """Applies new stop strings or a new limit; True when every choice is complete by them."""
        alive = [choice for choice in self.choices if choice.finish_reason is None]
        for choice in alive:
            choice.update(request, is_stop=is_stop, is_limit=is_limit)
        return all(choice.is_complete for choice in alive)

    def end(self, reason: FinishReason = "stop", *, is_early: bool = False) -> list[Piece]:
        """The last pieces: a finish for every open choice, then the usage. `is_early`: the engine
        was interrupted, so the usage that it reported is not final."""
        self._is_early = is_early
        out: list[Piece] = []
        for choice in self.choices:
            choice.end(reason, out, is_own=not is_early)
        out.append(Delta(usage=self.usage))
        return out

    @property
    def finish_reasons(self) -> tuple[FinishReason | None, ...]:
        return tuple(choice.finish_reason for choice in self.choices)

    @property
    def usage(self) -> Usage:
        """The engine's figures if it came to its own end; else at least what was counted here."""
        usage = self._engine_usage or Usage()
        was_ended = self._is_early or any(_was_ended(choice) for choice in self.choices)
        if self._engine_usage is not None and not was_ended:
            return usage
        return Usage(
            usage.prompt_tokens,
            max(usage.completion_tokens, sum(choice.tokens for choice in self.choices)),
            usage.cached_tokens,
            max(usage.reasoning_tokens, sum(c.reasoning_tokens for c in self.choices)),
        )

    def _settle(self) -> None:
        is_finished = all(choice.finish_reason is not None for choice in self.choices)
        self.is_cut = is_finished and any(choice.is_cut for choice in self.choices)


def _was_ended(choice: ChoiceText) -> bool:
    return choice.is_cut or choice.finish_reason in (None, "cancelled", "error")


def _no_text(step: Step) -> str | None:
    return None
