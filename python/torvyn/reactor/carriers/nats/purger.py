"""Deletes what was read and saved, which makes room for the writer.

A purge that fails is repeated until it is done: otherwise a writer would wait for room on an edge
where everything is read, and nothing would come that could start another purge.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from typing import Final

from torvyn.jetstream import BrokerUnavailable, Refused, Streams
from torvyn.reactor.carriers.nats.names import EdgeNames

logger = logging.getLogger("torvyn.durable")

RETRY_S: Final = 0.25


class Purger:
    """One purge at a time: the next one takes along what was settled meanwhile."""

    def __init__(self, streams: Streams, names: EdgeNames, owned: Sequence[int], done: int) -> None:
        self._streams, self._names = streams, names
        self._owns_all = len(owned) == names.partitions
        self.done = done
        """The last message that nobody needs any more. An earlier run may have failed to delete
        it."""
        self._purged = 0
        self._touched: dict[int, int] = dict.fromkeys(owned, done)
        """By partition: its last message that was settled."""
        self._emptied: dict[int, int] = {}
        """By partition: its last message that was deleted."""
        self._task: asyncio.Task[None] | None = None
        self._retry_at_s = 0.0

    def touch(self, partition: int, sequence: int) -> None:
        if not self._owns_all:
            self._touched[partition] = sequence

    @property
    def is_due(self) -> bool:
        is_running = self._task is not None and not self._task.done()
        return self.done > self._purged and not is_running and time.monotonic() >= self._retry_at_s

    # On the loop

    def start(self) -> None:
        if self.is_due:
            self._task = asyncio.get_running_loop().create_task(self._purge())

    async def finish(self) -> None:
        """Deletes the rest, if the broker answers."""
        if self._task is not None:
            await self._task
        await self._purge()

    async def _purge(self) -> None:
        try:
            while (done := self.done) > self._purged:
                await self._purge_up_to(done)
                self._purged = done
        except (BrokerUnavailable, Refused) as error:
            self._retry_at_s = time.monotonic() + RETRY_S
            text = "`%s`: what was read is not deleted yet: %s"
            logger.debug(text, self._names.stream, error)
        except (Exception, SystemExit):
            self._retry_at_s = time.monotonic() + RETRY_S
            logger.exception("`%s`: what was read could not be deleted", self._names.stream)

    async def _purge_up_to(self, done: int) -> None:
        if self._owns_all:
            await self._streams.purge(self._names.stream, below=done + 1)
            return
        for partition, last in list(self._touched.items()):
            if last > self._emptied.get(partition, 0):
                subject = self._names.filter(partition)
                await self._streams.purge(self._names.stream, below=done + 1, subject=subject)
                self._emptied[partition] = min(last, done)
