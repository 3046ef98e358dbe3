"""What each tenant stores at the broker, over all servers: no more than its share.

A server takes room for a tenant in units, and gives back what it no longer needs, so that most
sessions begin and end without asking the broker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from torvyn.transport.rejection import Rejection, share_full
from torvyn.transport.sessions.servers.key_limits import entry_of
from torvyn.transport.sessions.servers.shared_counts import CountFull, CountLimit, SharedCounts

_UNITS: Final = 256
"""Of a share: so many servers may each have one."""


@dataclass(slots=True)
class _Room:
    used_bytes: int = 0
    units: int = 0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class TenantShares:
    def __init__(self, counts: SharedCounts, share_bytes: Callable[[], int]) -> None:
        """`share_bytes` is what one tenant may store."""
        self._counts = counts
        self._share_bytes = share_bytes
        self._unit_bytes = max(1, share_bytes() // _UNITS)
        self._rooms: dict[str, _Room] = {}

    async def take(self, tenant: str, size_bytes: int, *, is_stored: bool = False) -> None:
        """Takes room. Raises a rejection if the tenant has used its share, unless it `is_stored`:
        the session of a server that is gone."""
        room = self._rooms.setdefault(tenant, _Room())
        most = None if is_stored else self._share_bytes() // self._unit_bytes
        try:
            await self._take(tenant, room, size_bytes, most)
        finally:
            self._give_units_back(tenant, room)

    def give_back(self, tenant: str, size_bytes: int) -> None:
        room = self._rooms[tenant]
        room.used_bytes -= size_bytes
        self._give_units_back(tenant, room)

    async def _take(self, tenant: str, room: _Room, size_bytes: int, most: int | None) -> None:
        async with room.lock:
            missing = -(-(room.used_bytes + size_bytes) // self._unit_bytes) - room.units
            if missing > 0:
                await self._add(tenant, room, missing, most)
            room.used_bytes += size_bytes

    async def _add(self, tenant: str, room: _Room, units: int, most: int | None) -> None:
        try:
            await self._counts.add(self._limit(tenant, most), units)
        except CountFull:
            raise share_full(self._share_bytes()) from None
        except Rejection:
            if most is not None:
                raise
            return  # what is stored already is counted with what comes next
        room.units += units

    def _give_units_back(self, tenant: str, room: _Room) -> None:
        # One is kept, so that it is not taken again and again.
        kept = -(-room.used_bytes // self._unit_bytes) + (1 if room.used_bytes else 0)
        unused = room.units - kept
        if unused > 0 and not room.lock.locked():
            room.units -= unused
            self._counts.remove(self._limit(tenant, None), unused)

    def _limit(self, tenant: str, most: int | None) -> CountLimit:
        return CountLimit(entry_of("tenant", tenant), most)
