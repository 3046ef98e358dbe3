"""Items of the decoder -> steps of the engine. Pure, except for a warning in the log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from torvyn.engine.openai.failures import Upstream, logger
from torvyn.engine.step import ChoiceStep, Step
from torvyn.errors import InvalidInput, TorvynError
from torvyn.protocol.frames import DeltaFrame, ErrorFrame, Finish, Usage
from torvyn.protocol.openai.chunk_decoder import DONE, Item
from torvyn.protocol.openai.finish_reasons import translate


class Steps:
    """Items of the decoder -> steps; knows which choices are still open.

    Raise `failure` after the step that came with it.
    """

    def __init__(self, choices: int, upstream: Upstream) -> None:
        self._choices = choices
        self._open = set(range(choices))
        self._begun: set[int] = set()
        self._upstream = upstream
        self.bad_end: TorvynError | None = None
        """A choice has ended as `error`; raised when the others have ended too."""
        self.has_begun = False
        self.is_done = False
        self.failure: TorvynError | None = None

    @property
    def is_complete(self) -> bool:
        """Every choice has a finish reason."""
        return not self._open

    def steps(self, items: Iterator[Item]) -> Iterator[Step]:
        """The first text is a step of its own: it is sent before the rest is decoded."""
        while True:
            is_first = not self.has_begun
            step = self.step(items, until_text=True)
            if step is not None:
                yield step
            if not is_first or not self.has_begun or self.failure is not None:
                return

    def step(self, items: Iterable[Item], *, until_text: bool = False) -> Step | None:
        parts: list[ChoiceStep] = []
        usage: Usage | None = None
        try:
            for item in items:
                if isinstance(item, DeltaFrame):
                    if item.index not in self._begun:
                        self._begin(item.index)
                    parts.append(_delta(item))
                    if until_text and not self.has_begun:
                        break
                elif isinstance(item, Finish):
                    parts.append(self._finish(item))
                elif isinstance(item, Usage):
                    usage = item
                elif isinstance(item, ErrorFrame):
                    self.failure = self.failure or self._upstream.error_event(item)
                elif item is DONE:
                    self.end()
        except InvalidInput as error:
            # Raised later, so that the text before it is not lost.
            self.failure = self.failure or self._decoding_failure(error)
        except TorvynError as error:
            self.failure = self.failure or error
        if not parts and usage is None:
            return None
        self.has_begun = self.has_begun or bool(parts)
        return Step(parts, usage)

    def begin_directly(self) -> None:
        """Text of the only choice has taken the direct path."""
        self._begun.add(0)
        self.has_begun = True

    def end(self) -> None:
        """The upstream has ended its answer; raises if it is incomplete."""
        self.is_done = True
        if self._open:
            raise self._missing_finish()
        if self.bad_end is not None:
            raise self.bad_end

    def _decoding_failure(self, error: InvalidInput) -> TorvynError:
        is_short = error.code == "protocol.stream-cut" and bool(self._begun)
        if is_short and self._open.isdisjoint(self._begun):
            # The choices that it began are complete: it generated fewer choices than requested.
            return self._missing_finish()
        failed: TorvynError = self._upstream.decoding_failure(error)
        return failed

    def _missing_finish(self) -> TorvynError:
        return self._upstream.missing_finish(self._choices, sorted(self._open), self._begun)

    def _begin(self, index: int) -> None:
        if not 0 <= index < self._choices:
            raise self._upstream.garbage(f"a choice {index} of {self._choices}")
        self._begun.add(index)

    def _finish(self, finish: Finish) -> ChoiceStep:
        self._begin(finish.index)
        self._open.discard(finish.index)
        native = finish.native_reason
        if native is not None:
            _report(native, finish.reason)
        if finish.reason == "error":
            failed = self._upstream.bad_finish(finish.index, native or finish.reason)
            self.bad_end = self.bad_end or failed
        return ChoiceStep(
            finish.index,
            tokens=0,
            finish_reason=finish.reason,
            matched_stop=finish.matched_stop,
            native_reason=native,
        )


def _delta(delta: DeltaFrame) -> ChoiceStep:
    # Without log probabilities the number of tokens in a chunk is unknown; it is usually one.
    tokens = len(delta.logprobs) if delta.logprobs else 1
    return ChoiceStep(
        delta.index, (), b"", delta.text, delta.kind, delta.call, delta.logprobs, tokens
    )


_reported: set[str] = set()
_MOST_REPORTED: Final = 64


def _report(native: str, ours: str) -> None:
    """Warns once per process about an unknown finish reason; an upstream may invent many."""
    _, is_known = translate(native)
    if is_known or native in _reported or len(_reported) >= _MOST_REPORTED:
        return
    _reported.add(native)
    logger.warning(
        "an upstream uses the finish reason %r, which is read as `%s`",
        native,
        ours,
        extra={"event": "upstream.finish-reason", "native_reason": native, "reason": ours},
    )
