"""Replay: an answer generated again, from where its frames left off."""

from __future__ import annotations

from torvyn.engine.answer.answer import Answer, AnswerWrapper, Reader
from torvyn.engine.answer.replay import Progress, Rest, generation_lost
from torvyn.engine.delta import Piece

__all__ = ["Progress", "ReplayedAnswer", "generation_lost"]


class ReplayedAnswer(AnswerWrapper):
    """An answer whose pieces begin where the progress ends."""

    def __init__(self, answer: Answer, progress: Progress) -> None:
        super().__init__(answer)
        self._progress = progress
        self._skipped_tokens = 0

    @property
    def skipped_tokens(self) -> int:
        return self._skipped_tokens

    async def push(self, reader: Reader) -> None:
        rest = _RestReader(reader, self, self._progress)
        await self._answer.push(rest)
        rest.rest.check_end()

    def count_skipped(self) -> None:
        """All tokens so far were generated before."""
        self._skipped_tokens = self._answer.usage.completion_tokens


class _RestReader:
    """Passes on what is new in each piece, and compares what is not."""

    def __init__(self, reader: Reader, answer: ReplayedAnswer, progress: Progress) -> None:
        self._reader = reader
        self._answer = answer
        self.rest = Rest(progress)
        self.flush = reader.flush

    def add(self, piece: Piece) -> bool:
        new = None if self.rest.is_different else self.rest.of(piece)
        if self.rest.is_different:
            self._answer.close()
        elif new is None:
            self._answer.count_skipped()
        else:
            return self._reader.add(new)
        return False
