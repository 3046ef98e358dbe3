"""`Answer`: one answer while it is generated, and `Reader`: the receiver of its pieces.

A generation is an answer. Wrappers change the pieces on their way to the reader: a replayed answer
skips what clients have, a paced one slows down.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from torvyn.engine.completion import CompletionBuilder
from torvyn.engine.delta import Completion, Piece
from torvyn.engine.request import Request
from torvyn.protocol.frames import FilterSide, FinishReason, Kind, Usage

if TYPE_CHECKING:
    from torvyn._flow.statistics import Statistics


@dataclass(frozen=True, slots=True)
class FlowAccount:
    """The statistics of one flow of an answer."""

    side: FilterSide
    choice: int | None
    """None for the prompt, which all choices share."""
    kind: Kind
    statistics: Statistics

    def to_dict(self) -> dict[str, Any]:
        about = {"side": self.side, "choice": self.choice, "kind": self.kind}
        return {**about, **self.statistics.to_dict()}


class Reader(Protocol):
    """Receives the pieces of an answer as they are generated."""

    def add(self, piece: Piece) -> bool:
        """Buffers a piece; True when it is time to flush."""

    def flush(self) -> Awaitable[None] | None:
        """Sends what is buffered; returns what remains to wait for, if anything. Called when `add`
        returned True; `push_buffered` also calls it whenever the answer waits."""


class Answer(ABC):
    """One answer. `push` it once; everything else may be called at any time."""

    __slots__ = ()

    @abstractmethod
    def push(self, reader: Reader) -> Coroutine[Any, Any, None]:
        """Gives every piece to the reader, in the task that awaits this; the reader itself sends
        what it buffered last. Raises the answer's error at the end."""

    @property
    @abstractmethod
    def request(self) -> Request: ...

    @property
    @abstractmethod
    def usage(self) -> Usage:
        """The tokens so far; after the end, all of them."""

    @property
    @abstractmethod
    def finish_reasons(self) -> tuple[FinishReason | None, ...]:
        """How each choice ended; None while it has not."""

    @property
    @abstractmethod
    def filtered_side(self) -> FilterSide | None:
        """Where a guard ended a choice as `content_filter`: in the prompt, so that the engine was
        never called, or in the completion. None: no choice ended this way."""

    @property
    @abstractmethod
    def timing(self) -> Mapping[str, float]:
        """The figures of `torvyn.engine.Timing` that are known so far."""

    @property
    @abstractmethod
    def accounts(self) -> tuple[FlowAccount, ...]:
        """The statistics of its flows: the prompt's first, then one per choice and kind."""

    @abstractmethod
    def stop(self) -> None:
        """Ends the answer in good order, from any thread: the reader gets what was held back and
        the finish `stop`."""

    @abstractmethod
    def update(
        self, *, stop: str | Sequence[str] | None = None, max_tokens: int | None = None
    ) -> None:
        """Changes what ends the answer, for text that was not released yet; call it on the thread
        of the loop that reads the answer. None changes nothing; `[]` removes all stop strings.
        Raises `InvalidInput`.

        A `max_tokens` below what was generated already ends the answer as `length`. Text that flows
        hold back was released before the change.
        """

    @abstractmethod
    def close(self) -> None:
        """Ends the answer at once, from any thread, also before it is read. A reader that is still
        there gets the finish `cancelled`."""

    async def acomplete(self) -> Completion:
        """The whole answer, its pieces joined."""
        builder = CompletionBuilder(self.request)
        await self.push(builder)
        return builder.completion(self.usage, self.timing, self.filtered_side)

    @property
    def request_id(self) -> str:
        return self.request.id

    @property
    def skipped_tokens(self) -> int:
        """Tokens that were generated again and not pushed; only a replayed answer has any."""
        return 0


class AnswerWrapper(Answer):
    """An answer that pushes the pieces of another one in its own way."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer

    @property
    def request(self) -> Request:
        return self._answer.request

    @property
    def usage(self) -> Usage:
        return self._answer.usage

    @property
    def finish_reasons(self) -> tuple[FinishReason | None, ...]:
        return self._answer.finish_reasons

    @property
    def filtered_side(self) -> FilterSide | None:
        return self._answer.filtered_side

    @property
    def timing(self) -> Mapping[str, float]:
        return self._answer.timing

    @property
    def accounts(self) -> tuple[FlowAccount, ...]:
        return self._answer.accounts

    @property
    def skipped_tokens(self) -> int:
        return self._answer.skipped_tokens

    def stop(self) -> None:
        self._answer.stop()

    def update(
        self, *, stop: str | Sequence[str] | None = None, max_tokens: int | None = None
    ) -> None:
        self._answer.update(stop=stop, max_tokens=max_tokens)

    def close(self) -> None:
        self._answer.close()
