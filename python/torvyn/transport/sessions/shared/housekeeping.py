"""Renews the records of this server's sessions; and one of all servers deletes what no record leads
to."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Final

from torvyn._io.nats import Conflict, Refused
from torvyn.errors import TorvynError
from torvyn.transport.sessions.shared.bucket import Bucket
from torvyn.transport.sessions.shared.store import SharedStore

logger = logging.getLogger("torvyn.transport")

_SHORTEST_S: Final = 20.0
_AGAIN_S: Final = 2.0
"""How soon it tries again what the broker has refused: records that are not renewed expire."""
_SWEEP: Final = "sweep"
"""The entry of the server that has looked last, with what it has found."""
_MOST_ORPHANS: Final = 2000
"""The others are found the next time."""


class Housekeeping:
    """Runs every half of the time for which sessions are kept."""

    def __init__(self, store: SharedStore, bucket: Bucket, ttl_s: float) -> None:
        self._store = store
        self._bucket = bucket
        self._every_s = max(_SHORTEST_S, ttl_s / 2)
        self._seen = -1
        """The revision of that entry, the last time."""
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
        """Deletes the frames and prompts of sessions that had no record now and at the last time:
        their server is gone, and no client has come back. Does nothing if another server has looked
        since this one was here last."""
        entry = await self._bucket.read(_SWEEP)
        revision = 0 if entry is None else entry.revision
        if entry is not None and revision != self._seen:
            self._seen = revision
            return
        before = set() if entry is None else set(json.loads(entry.value))
        orphans = await self._orphans()
        try:
            data = json.dumps(sorted(orphans)[:_MOST_ORPHANS]).encode()
            self._seen = await self._bucket.write(_SWEEP, data, revision)
        except Conflict:
            return  # another server does it
        for id in orphans & before:
            await asyncio.gather(self._store.log.delete(id), self._store.prompts.delete(id))

    async def _orphans(self) -> set[str]:
        # The records last: a session that begins meanwhile has one.
        stored = {*await self._store.log.ids(), *await self._store.prompts.ids()}
        return stored - self._store.owned.keys() - set(await self._store.records.ids())
