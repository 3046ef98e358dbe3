"""What each tenant stores at the broker, over all servers: no more than its share.

A server takes room for a tenant in units, and gives back what it no longer needs, so that most
sessions begin and end without asking the broker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from torvyn.transport.rejection import share_full
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
        share_bytes = self._share_bytes()
        most = None if is_stored else share_bytes // self._unit_bytes
        async with room.lock:
            missing = -(-(room.used_bytes + size_bytes) // self._unit_bytes) - room.units
            if missing > 0:
                try:
                    await self._counts.add(self._limit(tenant, most), missing)
                except CountFull:
                    raise share_full(share_bytes) from None
                room.units += missing
            room.used_bytes += size_bytes

    def give_back(self, tenant: str, size_bytes: int) -> None:
        room = self._rooms[tenant]
        room.used_bytes -= size_bytes
        # One is kept, so that it is not taken again and again.
        unused = room.units - -(-room.used_bytes // self._unit_bytes)
        if room.used_bytes:
            unused -= 1
        if unused > 0 and not room.lock.locked():
            room.units -= unused
            self._counts.remove(self._limit(tenant, None), unused)
        if not room.units and not room.lock.locked():
            del self._rooms[tenant]

    def _limit(self, tenant: str, most: int | None) -> CountLimit:
        return CountLimit(entry_of("tenant", tenant), most)
