"""Pacing: pushes an answer no faster than an API key may have it.

The reader drives the engine, so pacing slows the engine and drops nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from torvyn.engine.answer.answer import Answer, AnswerWrapper, Reader
from torvyn.engine.delta import Piece
from torvyn.transport.access.key_limits import Pace

_SHORTEST_PAUSE_S: Final = 0.02
"""Shorter debts accumulate, because a timer per token would cost more than the token."""

Pause = Callable[[float], Awaitable[None]]


class PacedAnswer(AnswerWrapper):
    """The same pieces, with pauses. `pause` waits for some seconds, or until the answer ends."""

    def __init__(self, answer: Answer, pace: Pace, pause: Pause) -> None:
        super().__init__(answer)
        self._pace = pace
        self._pause = pause

    async def push(self, reader: Reader) -> None:
        await self._pause(self._pace.debt_s())
        paced = _PacedReader(reader, self._answer, self._pace, self._pause)
        await self._answer.push(paced)
        await paced.pause()


class _PacedReader:
    """Pauses after a flush when the answer is ahead of its pace."""

    def __init__(self, reader: Reader, answer: Answer, pace: Pace, pause: Pause) -> None:
        self._reader = reader
        self._answer = answer
        self._pace = pace
        self._pause = pause
        self._paid = 0
        self._wait_s = 0.0

    def add(self, piece: Piece) -> bool:
        is_due = self._reader.add(piece)
        # Not one per piece: a flow may make one piece of many tokens.
        tokens = self._answer.usage.completion_tokens - self._answer.skipped_tokens
        self._wait_s = self._pace.spend(max(0, tokens - self._paid))
        self._paid = max(self._paid, tokens)
        return is_due or self._wait_s > _SHORTEST_PAUSE_S

    async def flush(self) -> None:
        if (sending := self._reader.flush()) is not None:
            await sending
        await self.pause()

    async def pause(self) -> None:
        wait_s, self._wait_s = self._wait_s, 0.0
        if wait_s > _SHORTEST_PAUSE_S:
            await self._pause(wait_s)
