"""How much waits on the broker: asked every few seconds, for statistics."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from typing import Final

from torvyn.components.connection import Connection
from torvyn.components.restart import keep_task_running
from torvyn.concurrency.end_task import end_task
from torvyn.jetstream import BrokerUnavailable, Refused, Streams

INTERVAL_S: Final = 2.0


class StreamFigures:
    """`of` is for any thread, the coroutines are for the loop."""

    def __init__(self, streams: Streams, names: Iterable[str], connection: Connection) -> None:
        self._streams, self._names = streams, sorted(set(names))
        self.connection: Final = connection
        self._found: dict[str, tuple[int, int]] = {}
        self._task: asyncio.Task[None] | None = None

    def of(self, stream: str) -> tuple[int | None, int | None]:
        """Messages and bytes; None if they are not known."""
        return self._found.get(stream, (None, None))

    async def start(self) -> None:
        work = keep_task_running(self._run, self._forget)
        self._task = asyncio.get_running_loop().create_task(work)

    async def stop(self) -> None:
        """Looks for the last time, if the broker answers."""
        if self._task is not None:
            await end_task(self._task)
            await self._look()

    def _forget(self, _: str) -> None:
        """Old figures must not look like new ones."""
        self._found.clear()

    async def _run(self) -> None:
        while True:
            await self._look()
            await asyncio.sleep(INTERVAL_S)

    async def _look(self) -> None:
        with contextlib.suppress(BrokerUnavailable, Refused):
            for name in self._names:
                state = await self._streams.state(name)
                if state is not None:
                    self._found[name] = (state.messages, state.bytes)
