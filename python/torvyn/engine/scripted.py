"""`scripted`: an engine with scripted answers, for tests, demonstrations and replays.

An answer depends only on the script, the request and the seed, so it is the same in every process.
Tokens are ids of a small vocabulary or bytes, so that characters are split over tokens as they are
with real models.
"""

from __future__ import annotations

import asyncio
import functools
import random
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, ClassVar, Final

from torvyn._contract.units import parse_duration_s
from torvyn.components.builtin.source_scripted import words
from torvyn.engine.engine import Engine
from torvyn.engine.request import Request
from torvyn.engine.step import ChoiceStep, Step
from torvyn.errors import InvalidInput
from torvyn.protocol.frames import FINISH_REASONS, FinishReason, Kind, ToolCall, Usage

if TYPE_CHECKING:
    from torvyn.text import Vocabulary

OTHER_NAMES: Final = {"script": "text", "delay_s": "delay", "first_delay_s": "first_delay"}
"""Names that people look for, and the option's name; for hints."""
Item = str | bytes | float | ToolCall | tuple[str, str] | Exception
"""A token, a pause in seconds, a piece of a tool call, `("reasoning", token)`, or an error."""
ScriptFunction = Callable[[Request, int], Iterable[Item]]
Script = str | Sequence[Item] | ScriptFunction

ANSWER = "The quick brown fox jumped over the lazy dog. Torvyn handles streaming tokens."


class Scripted(Engine):
    """Answers with `text`, which is split into words, or with a list of `tokens`. In a program,
    either may be a list of items, or a function that returns items for a request and the index of a
    choice.

    With several `answers`, the seed and the choice select one; without a seed, choice 0 gets the
    first, choice 1 the second, and so on.
    """

    name: ClassVar[str] = "scripted"
    is_replayable: ClassVar[bool] = True
    other_names: ClassVar[Mapping[str, str]] = OTHER_NAMES

    def __init__(
        self,
        text: Script | None = None,
        *,
        tokens: Sequence[Item] | ScriptFunction | None = None,
        answers: Sequence[Script] = (),
        delay: float | str = 0.0,
        first_delay: float | str = 0.0,
        finish_reason: FinishReason = "stop",
        token_bytes: int | None = None,
        uses_ids: bool = False,
        step_tokens: int = 1,
        fail_at: int | None = None,
        error: Exception | None = None,
        sleep: Callable[[float], Any] | None = None,
    ) -> None:
        """`delay` is the time between two tokens, `first_delay` the time to the first one: seconds,
        or text such as "300ms". The end follows the last token at once.

        `token_bytes` splits the text into tokens of that many bytes, even inside a character.
        With `uses_ids`, tokens are ids of a vocabulary made from the script. `fail_at` raises
        `error` instead of that token. A step has `step_tokens` tokens. Tests may replace `sleep`.
        """
        super().__init__()
        ways = {"text": text is not None, "tokens": tokens is not None, "answers": bool(answers)}
        if sum(ways.values()) > 1:
            given = " and ".join(f"`{name}`" for name, is_given in ways.items() if is_given)
            raise _bad_option(f"pass one of {given}")
        if finish_reason not in FINISH_REASONS:
            raise _bad_option(f"`finish_reason` is one of {', '.join(FINISH_REASONS)}")
        _check_counts(step_tokens=step_tokens, token_bytes=token_bytes)
        script = ANSWER if text is None else text
        scripts = tuple(answers) or (script if tokens is None else tokens,)
        # Split once: many answers at a time share the words.
        self._answers: tuple[Sequence[Item] | ScriptFunction, ...] = tuple(
            words(one) if isinstance(one, str) else one for one in scripts
        )
        self._delay_s = _duration_s("delay", delay)
        self._first_delay_s = _duration_s("first_delay", first_delay)
        self._finish_reason = finish_reason
        self._token_bytes = token_bytes
        self._step_tokens = step_tokens
        self._fail_at = fail_at
        self._error = error
        self._sleep = sleep or asyncio.sleep
        self._ids = self._numbered() if uses_ids else None
        self.aborted: list[str] = []
        """The ids of requests that ended before their script did, in order."""

    @functools.cached_property
    def vocabulary(self) -> Vocabulary | None:
        """The tokens of its script, if it uses ids."""
        if self._ids is None:
            return None
        from torvyn.text import Vocabulary

        return Vocabulary(list(self._ids))

    def describe(self) -> Mapping[str, Any]:
        return {"engine": self.name, "answers": len(self._answers), "replayable": True}

    async def steps(self, request: Request) -> AsyncIterator[Step]:
        is_done = False
        try:
            if self._first_delay_s:
                await self._sleep(self._first_delay_s)
            choices = [self._choice(request, index) for index in range(request.n)]
            usage = Usage(prompt_tokens=prompt_tokens(request))
            yield Step((), usage)
            if len(choices) == self._step_tokens == 1 and not self._delay_s:
                # Nothing to merge and nothing to wait for: a short path for benchmarks.
                for part in choices[0]:
                    if isinstance(part, ChoiceStep):
                        yield Step((part,))
                    elif isinstance(part, float):
                        await self._sleep(part)
                    else:
                        raise part
            parts_of = [iter(choice) for choice in choices if not choice.is_over]
            is_first = True
            while parts := [part for one in parts_of for part in islice(one, self._step_tokens)]:
                if any(map(_is_delayed, parts)):
                    if self._delay_s and not is_first:
                        await self._sleep(self._delay_s)
                    is_first = False
                yield await self._step(parts)
            tokens = sum(choice.tokens for choice in choices)
            reasoning = sum(choice.reasoning_tokens for choice in choices)
            is_done = True
            yield Step((), Usage(usage.prompt_tokens, tokens, 0, reasoning))
        finally:
            if not is_done:
                self.aborted.append(request.id)

    async def _step(self, parts: list[ChoiceStep | float | Exception]) -> Step:
        """Their output, after their pauses."""
        choices = [part for part in parts if isinstance(part, ChoiceStep)]
        if len(choices) < len(parts):
            for part in parts:
                if isinstance(part, Exception):
                    raise part
            await self._sleep(sum(part for part in parts if isinstance(part, float)))
        return Step(choices)

    def _choice(self, request: Request, index: int) -> _ScriptedChoice:
        chosen = index
        if request.seed is not None:
            chosen = random.Random(f"{request.seed}/{index}").randrange(len(self._answers))
        script = self._answers[chosen % len(self._answers)]
        items = self._items(list(script(request, index)) if callable(script) else script)
        if self._fail_at is not None:
            items = chain(islice(items, self._fail_at), [self._error or _scripted_failure()])
        return _ScriptedChoice(request, index, items, self._finish_reason, self._ids)

    def _numbered(self) -> dict[bytes, int]:
        """Every token that any answer may use, with its id."""
        if any(callable(answer) for answer in self._answers):
            raise _bad_option("`uses_ids` does not work with a function as the script")
        items = [item for answer in self._answers for item in self._items(answer)]  # type: ignore[arg-type]
        texts = [item[1] if isinstance(item, tuple) else item for item in items]
        tokens = [_encoded(text) for text in texts if isinstance(text, (str, bytes))]
        return {token: id for id, token in enumerate(dict.fromkeys(tokens))}

    def _items(self, script: str | Sequence[Item]) -> Iterator[Item]:
        items = words(script) if isinstance(script, str) else script
        if self._token_bytes is None:
            yield from items
            return
        for item in items:
            if isinstance(item, (str, bytes)):
                yield from _pieces(item, self._token_bytes)
            else:
                yield item


class _ScriptedChoice:
    """One choice of an answer."""

    def __init__(
        self,
        request: Request,
        index: int,
        items: Iterable[Item],
        finish_reason: FinishReason,
        ids: Mapping[bytes, int] | None,
    ) -> None:
        self._request = request
        self._index = index
        self._items = items
        self._finish_reason = finish_reason
        self._ids = ids
        self.tokens = self.reasoning_tokens = 0
        self.is_over = False

    def __iter__(self) -> Iterator[ChoiceStep | float | Exception]:
        """Its steps, its pauses, and the error with which it fails."""
        index, is_plain = self._index, not self._request.logprobs and self._ids is None
        for item in self._items:
            if isinstance(item, str) and is_plain:
                self.tokens += 1
                yield ChoiceStep(index, (), item.encode(errors="replace"))
            elif isinstance(item, (int, float)):
                yield float(item)
            elif isinstance(item, Exception):
                yield item
            else:
                yield self._part(item)
        self.is_over = True
        yield ChoiceStep(index, tokens=0, finish_reason=self._finish_reason)

    def _part(self, item: Any) -> ChoiceStep:
        self.tokens += 1
        if isinstance(item, ToolCall):
            return ChoiceStep(self._index, kind="tool_call", call=item)
        is_reasoning = isinstance(item, tuple)
        self.reasoning_tokens += is_reasoning
        data = _encoded(item[1] if isinstance(item, tuple) else item)
        logprobs = (self._logprob(data),) if self._request.logprobs else None
        kind: Kind = "reasoning" if is_reasoning else "text"
        if self._ids is not None:
            return ChoiceStep(self._index, [self._ids[data]], kind=kind, logprobs=logprobs)
        return ChoiceStep(self._index, data=data, kind=kind, logprobs=logprobs)

    def _logprob(self, data: bytes) -> Mapping[str, Any]:
        """A log probability that depends only on the seed, the choice and the position."""
        rng = random.Random(f"{self._request.seed}/{self._index}/{self.tokens}")
        token = data.decode(errors="replace")
        entry: dict[str, Any] = {
            "token": token,
            "logprob": -rng.random(),
            "bytes": list(data),
        }
        others = [
            {"token": f"{token}{rank}", "logprob": entry["logprob"] - rank, "bytes": None}
            for rank in range(1, self._request.top_logprobs)
        ]
        top = [dict(entry), *others] if self._request.top_logprobs else []
        return {**entry, "top_logprobs": top}


def prompt_tokens(request: Request) -> int:
    """Counts the words of the prompt as tokens."""
    texts = [request.prompt] if request.prompt is not None else []
    texts += [str(message.get("content", "")) for message in request.messages]
    return sum(len(words(text)) for text in texts)


def _encoded(token: Any) -> bytes:
    return token if isinstance(token, bytes) else str(token).encode(errors="replace")


def _pieces(token: str | bytes, size: int) -> Iterator[bytes]:
    data = _encoded(token)
    for at in range(0, len(data), size):
        yield data[at : at + size]


def _is_delayed(part: ChoiceStep | float | Exception) -> bool:
    """A token, or the error in place of one; the end of a choice and a pause follow at once."""
    return part.tokens > 0 if isinstance(part, ChoiceStep) else isinstance(part, Exception)


def _check_counts(**values: Any) -> None:
    for name, value in values.items():
        is_count = isinstance(value, int) and not isinstance(value, bool) and value >= 1
        if value is not None and not is_count:
            raise _bad_option(f"`{name}` must be a whole number of at least 1, not {value!r}")


def _duration_s(name: str, value: float | str) -> float:
    try:
        return parse_duration_s(value)
    except ValueError as error:
        raise _bad_option(f"`{name}`: {error}") from None


def _bad_option(problem: str) -> InvalidInput:
    return InvalidInput(f"scripted: {problem}", code="engine.bad-option")


def _scripted_failure() -> Exception:
    from torvyn.errors import Unavailable

    return Unavailable("the script fails here", code="engine.scripted-failure")
