"""Reads answers for a command: a signal ends the answer, and the engine stops at once.

One event loop serves all answers of a command, so that connections to an upstream stay open. If the
consumer of the deltas raises, the engine's request ends as well.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from torvyn._io.closing import CloseOnExit
from torvyn._io.process import SignalHandler

if TYPE_CHECKING:
    from torvyn.cli.inference.generation import AnyGeneration, AsyncCloseable
    from torvyn.engine import Delta


class AnswerReader(CloseOnExit):
    """`read` one answer after the other. The first `max_signals` signals end the answer, the next
    one ends the process."""

    def __init__(self, engine: AsyncCloseable, max_signals: int = 1) -> None:
        self._engine = engine
        self._max_signals = max_signals
        self._runner = asyncio.Runner()

    def close(self) -> None:
        with self._runner:
            self._runner.run(self._engine.aclose())

    def read(self, generation: AnyGeneration, consume: Callable[[Delta], None]) -> int | None:
        """Passes every delta to `consume`; returns the signal that ended the answer, if any."""
        return self._runner.run(self._read(generation, consume))

    async def _read(
        self, generation: AnyGeneration, consume: Callable[[Delta], None]
    ) -> int | None:
        loop = asyncio.get_running_loop()
        handler = SignalHandler(lambda _: generation.close(), limit=self._max_signals, loop=loop)
        with handler as signals:
            async with contextlib.aclosing(aiter(generation)) as deltas:
                async for delta in deltas:
                    consume(delta)
        return signals.received[0] if signals.received else None
