"""Response processing: an engine's steps -> deltas of text, one machine a choice.

Every choice gets exactly one finish reason, stop strings are cut exactly wherever the tokens were
cut, and what was generated is counted whatever ends it. Pure: no clock, no I/O, no loop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torvyn.engine.delta import Delta
from torvyn.engine.request import Request
from torvyn.engine.step import ChoiceStep, Step
from torvyn.errors import Internal
from torvyn.protocol.frames import FinishReason, Kind, Usage
from torvyn.text import StopStrings, TextStreamer


class ChoiceText:
    """One choice: tokens in, text out, until it has finished.

    Tokens whose text is still held wait with it: a delta's ids and log probabilities belong to its
    text or to text before it, never to text that is still to come.
    """

    __slots__ = (
        "_ids",
        "_includes",
        "_index",
        "_kind",
        "_limit",
        "_logprobs",
        "_released",
        "_stops",
        "_streamer",
        "_vocabulary",
        "finish_reason",
        "is_changed",
        "is_cut",
        "matched_stop",
        "reasoning_tokens",
        "tokens",
    )

    def __init__(self, index: int, request: Request, vocabulary: Any, limit: int | None) -> None:
        self._index = index
        self._vocabulary = vocabulary
        self._limit = limit
        self._streamer: TextStreamer | None = None
        self._stops = StopStrings([*request.stop], request.include_stop) if request.stop else None
        self._includes = request.include_stop
        self.is_changed = False
        self._released = ""
        """Text that new stop strings have let go, and nobody was given yet."""
        self._kind: Kind = "text"
        self._ids: list[int] = []
        self._logprobs: list[Mapping[str, Any]] | None = [] if request.logprobs else None
        self.tokens = 0
        self.reasoning_tokens = 0
        self.finish_reason: FinishReason | None = None
        self.matched_stop: str | None = None
        self.is_cut = False
        """It was ended here, while the engine would have gone on."""

    def update(self, request: Request, *, is_stop: bool, is_limit: bool) -> None:
        """Other stop strings or another limit, for what has not left yet; what that lets go, and
        an end that is due, come with the next step: see `heed`."""
        self.is_changed = True
        if is_limit:
            self._limit = request.max_tokens
        if not is_stop:
            return
        if self._stops is None:
            self._stops = StopStrings([*request.stop], self._includes) if request.stop else None
        elif request.stop:
            self._released += self._stops.replace([*request.stop])
        else:
            self._released += self._stops.finish()
            self._stops = None

    @property
    def is_due(self) -> bool:
        """It has all that it may have."""
        has_stopped = self._stops is not None and self._stops.matched is not None
        return has_stopped or (self._limit is not None and self.tokens >= self._limit)

    def take(self, part: ChoiceStep, out: list[Delta]) -> None:
        ids, finish = part.token_ids, part.finish_reason
        count = len(ids) if ids else part.tokens if part.data or part.text or part.call else 0
        if count and self._limit is not None and self.tokens + count >= self._limit:
            over = self.tokens + count - self._limit
            if over or finish is None:
                finish, self.is_cut = "length", True
            if ids:
                count -= over
                ids = ids[:count]
        self.tokens += count
        if part.kind != self._kind:
            self._turn_to(part.kind, out)
        if part.kind == "reasoning":
            self.reasoning_tokens += count
        if ids:
            self._ids += ids
        if part.logprobs and self._logprobs is not None:
            self._logprobs += part.logprobs[: len(ids)] if ids else part.logprobs
        if part.call is not None:
            out.append(self._delta("", call=part.call))
        text = part.text or (self._decode(ids or part.data) if ids or part.data else "")
        if self._stops is not None and text and part.kind == "text":
            text = self._stops.put(text)
            if self._stops.matched is not None:
                self._finish("stop", text, self._stops.matched, out)
                self.is_cut = True
                return
        if finish is not None:
            self._finish(finish, text + self._tail(), part.matched_stop, out)
        elif text:
            is_plain = not self._ids and not self._logprobs and self._kind == "text"
            out.append(Delta(self._index, text) if is_plain else self._delta(text))

    def plain(self, step: Step) -> str | None:
        """What the step adds, when that is text of this choice, nothing else, and nothing ends by
        it. None: it is for `take`."""
        if step.usage is not None or len(step.choices) != 1:
            return None
        part = step.choices[0]
        if part.finish_reason is not None or part.call is not None or part.token_ids or part.index:
            return None
        if part.kind != "text" or self._kind != "text" or self._stops is not None or self._ids:
            return None
        if self.is_changed or self.finish_reason is not None:
            return None
        if self._limit is not None and self.tokens + part.tokens >= self._limit:
            return None
        text = part.text
        if not text:
            if not part.data:
                return None
            text = self._decode(part.data)
        self.tokens += part.tokens
        return text

    def end(self, reason: FinishReason, out: list[Delta], *, keeps_held: bool = True) -> None:
        """No more will come. What is held is let go, or with a cancellation dropped."""
        if self.finish_reason is None:
            if keeps_held:
                self._release(out)
            self._finish(reason, self._tail() if keeps_held else "", None, out)

    def heed(self, out: list[Delta]) -> None:
        """What an update has let go leaves, and an end that is due by it comes."""
        self.is_changed = False
        self.is_cut = self.is_due
        if self.is_cut:
            self.end("length", out)
        else:
            self._release(out)

    def _release(self, out: list[Delta]) -> None:
        if self._released:
            out.append(Delta(self._index, self._released))
            self._released = ""

    def _decode(self, piece: Any) -> str:
        if self._streamer is None:
            if self._vocabulary is None and not isinstance(piece, bytes):
                raise _wrong_step("token ids, but it has no vocabulary to read them with")
            self._streamer = TextStreamer(self._vocabulary)
        return self._streamer.put(piece)

    def _turn_to(self, kind: Kind, out: list[Delta]) -> None:
        """Text and reasoning never mix: an unfinished character stays with the kind it is of."""
        streamer, self._streamer = self._streamer, None
        if streamer is not None and (text := streamer.finish()):
            if self._kind == "text" and self._stops is not None:
                text = self._stops.put(text)
            if text:
                out.append(self._delta(text))
        self._kind = kind

    def _tail(self) -> str:
        """What the machines still hold; it may complete a stop string."""
        text = self._streamer.finish() if self._streamer is not None else ""
        if self._stops is None or self._kind == "reasoning":
            return text
        text = self._stops.put(text) if text else ""
        return text if self._stops.matched is not None else text + self._stops.finish()

    def _finish(
        self, reason: FinishReason, text: str, matched: str | None, out: list[Delta]
    ) -> None:
        if self._stops is not None and self._stops.matched is not None:
            reason, matched = "stop", self._stops.matched
        elif self._kind == "reasoning" and reason != "cancelled":
            self._release_before_reasoning(out)
        self.finish_reason, self.matched_stop = reason, matched
        delta = self._delta(text)
        delta.finish_reason, delta.matched_stop = reason, matched
        out.append(delta)

    def _release_before_reasoning(self, out: list[Delta]) -> None:
        """Text that was held when the reasoning began."""
        if self._stops is not None and (held := self._stops.finish()):
            out.append(Delta(self._index, held))

    def _delta(self, text: str, call: Any = None) -> Delta:
        kind = self._kind if call is not None or self._kind != "tool_call" else "text"
        delta = Delta(self._index, text, kind, call)
        if self._ids:
            delta.token_ids, self._ids = self._ids, []
        if self._logprobs:
            delta.logprobs, self._logprobs = tuple(self._logprobs), []
        return delta


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
                raise _wrong_step(f"a choice {part.index} of {len(self.choices)}")
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


def _wrong_step(what: str) -> Internal:
    return Internal(f"the engine sent {what}", code="engine.step-invalid")
