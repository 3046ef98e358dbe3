"""Renews the records of this server's sessions, and deletes frames that no record leads to."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from torvyn.errors import TorvynError
from torvyn.jetstream import Refused
from torvyn.transport.sessions.shared.store import SharedStore

logger = logging.getLogger("torvyn.transport")

_SHORTEST_S: Final = 20.0
_AGAIN_S: Final = 2.0
"""How soon it tries again what the broker has refused: records that are not renewed expire."""


class Housekeeping:
    """Runs every half of the time for which sessions are kept."""

    def __init__(self, store: SharedStore, ttl_s: float) -> None:
        self._store = store
        self._every_s = max(_SHORTEST_S, ttl_s / 2)
        self._orphans: set[str] = set()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        wait_s = self._every_s
        while True:
            await asyncio.sleep(wait_s)
            try:
                await self._store.renew()
                await self.sweep()
                wait_s = self._every_s
            except (Refused, TorvynError) as error:
                logger.warning("sessions: %s", error)
                wait_s = min(_AGAIN_S, self._every_s)
            except Exception:
                # Without renewals this server would lose all its sessions.
                logger.exception("sessions: records were not renewed")
                wait_s = min(_AGAIN_S, self._every_s)

    async def sweep(self) -> None:
        """Deletes the frames of sessions that had no record now and at the last time: their server
        is gone, and no client has come back."""
        orphans: set[str] = set()
        for id in await self._store.log.ids():
            if id not in self._store.owned and await self._store.records.get(id) is None:
                orphans.add(id)
        for id in orphans & self._orphans:
            await self._store.log.delete(id)
        self._orphans = orphans
