"""Listening to an answer at a terminal: signals end the answer, and the engine hears of it at once.

One event loop serves all answers of a command, so that connections to an upstream live on. Whoever
takes the deltas may raise; then the engine's request is over as well.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from torvyn.concurrency.context_managers import Closing
from torvyn.concurrency.signals import SignalHandler

if TYPE_CHECKING:
    from torvyn.cli.inference.reply import Answerer, Reply
    from torvyn.engine import Delta


class Listener(Closing):
    """`listen` to one answer after the other. `patience` signals are asked nicely, one more ends
    the process."""

    def __init__(self, engine: Answerer, patience: int = 1) -> None:
        self._engine = engine
        self._patience = patience
        self._runner = asyncio.Runner()

    def close(self) -> None:
        with self._runner:
            self._runner.run(self._engine.aclose())

    def listen(self, generation: Reply, take: Callable[[Delta], None]) -> int | None:
        """Every delta to `take`; the signal that ended it, if one did."""
        return self._runner.run(self._listen(generation, take))

    async def _listen(self, generation: Reply, take: Callable[[Delta], None]) -> int | None:
        loop = asyncio.get_running_loop()
        handler = SignalHandler(lambda _: generation.close(), limit=self._patience, loop=loop)
        with handler as signals:
            async with contextlib.aclosing(aiter(generation)) as deltas:
                async for delta in deltas:
                    take(delta)
        return signals.received[0] if signals.received else None
