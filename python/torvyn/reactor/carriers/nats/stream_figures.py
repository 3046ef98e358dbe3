"""How much waits on the broker, and whether the streams of a flow are still there: asked every few
seconds."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Final

from torvyn._io.event_loop import end_task
from torvyn.components.connection import Connection
from torvyn.components.restart import keep_task_running
from torvyn.jetstream import BrokerUnavailable, Refused, Streams

INTERVAL_S: Final = 2.0
LOOKS: Final = 2
"""A stream that is missing so many times in a row was deleted: a broker that has just started may
not know it yet."""


class StreamFigures:
    """`of` and `gone` are for any thread, the coroutines are for the loop."""

    def __init__(
        self, streams: Streams, created: Mapping[str, str], connection: Connection
    ) -> None:
        """`created`: when each stream was made."""
        self._streams, self._created = streams, dict(created)
        self.connection: Final = connection
        self._found: dict[str, tuple[int, int]] = {}
        self._missing: dict[str, int] = {}
        self.gone: str | None = None
        """A stream that was deleted, and perhaps made again."""
        self._task: asyncio.Task[None] | None = None

    def of(self, stream: str) -> tuple[int | None, int | None]:
        """Messages and bytes, as they were last seen; None if they are not known."""
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
            for name, created in sorted(self._created.items()):
                state = await self._streams.state(name)
                missing = 0 if state is not None else self._missing.get(name, 0) + 1
                self._missing[name] = missing
                if missing >= LOOKS or (state is not None and state.created != created):
                    self.gone = name
                elif state is not None:
                    self._found[name] = (state.messages, state.bytes)
