"""Listening to an answer at a terminal: signals end the answer, and the engine hears of it at once.

One event loop serves all answers of a command, so that connections to an upstream live on. Whoever
takes the deltas may raise; then the engine's request is over as well.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from types import FrameType
from typing import TYPE_CHECKING, Final

from torvyn.concurrency.context_managers import Closing

if TYPE_CHECKING:
    from torvyn.cli.inference.reply import Answerer, Reply
    from torvyn.engine import Delta

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class Listener(Closing):
    """`listen` to one answer after the other. `patience` signals are asked nicely, one more ends
    the process."""

    def __init__(self, engine: Answerer, patience: int = 1) -> None:
        self._engine = engine
        self._patience = patience
        self._runner = asyncio.Runner()
        self._caught: list[int] = []

    def close(self) -> None:
        with self._runner:
            self._runner.run(self._engine.aclose())

    def listen(self, generation: Reply, take: Callable[[Delta], None]) -> int | None:
        """Every delta to `take`; the signal that ended it, if one did."""
        self._caught = []
        self._runner.run(self._listen(generation, take))
        return self._caught[0] if self._caught else None

    async def _listen(self, generation: Reply, take: Callable[[Delta], None]) -> None:
        with self._signals(generation):
            async with contextlib.aclosing(aiter(generation)) as deltas:
                async for delta in deltas:
                    take(delta)

    @contextlib.contextmanager
    def _signals(self, generation: Reply) -> Iterator[None]:
        def stop(number: int, frame: FrameType | None) -> None:
            self._caught.append(number)
            if len(self._caught) > self._patience:
                os._exit(128 + number)
            generation.close()

        loop = asyncio.get_running_loop()
        before = {number: signal.getsignal(number) for number in _SIGNALS}
        for number in _SIGNALS:
            # The loop's own way alone would wait for a write that blocks, ours alone would miss a
            # signal that comes as the loop falls asleep.
            loop.add_signal_handler(number, _nothing)
            signal.signal(number, stop)
        try:
            yield
        finally:
            for number in _SIGNALS:
                loop.remove_signal_handler(number)
                signal.signal(number, before[number])


def _nothing() -> None:
    """The loop has woken, and that is all."""
