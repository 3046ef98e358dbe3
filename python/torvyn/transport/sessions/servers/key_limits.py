"""The limits of API keys, counted over all servers of a cluster."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

from torvyn.transport.access.key_limits import rate_exceeded, too_many_streams
from torvyn.transport.sessions.servers.shared_counts import (
    RENEW_S,
    CountFull,
    CountLimit,
    RateFull,
    SharedCounts,
)

if TYPE_CHECKING:
    from torvyn.transport.access.caller import Caller

_PACE_S: Final = 1.0
"""How soon servers share the tokens per second of a key anew."""


class SharedKeyLimits:
    def __init__(self, counts: SharedCounts, on_share: Callable[[str, float], None]) -> None:
        """`on_share` gets a key, and this server's part of its tokens per second."""
        self._counts = counts
        self._on_share = on_share

    @asynccontextmanager
    async def enter(self, caller: Caller) -> AsyncIterator[None]:
        """One stream of the key. Raises a rejection at a limit, and if the broker refuses to
        count."""
        limit = self._limit(caller)
        try:
            await self._counts.add(limit)
        except CountFull:
            raise too_many_streams(caller.max_streams or 0) from None
        except RateFull as full:
            raise rate_exceeded(caller.requests_per_minute or 0, full.wait_s) from None
        try:
            yield
        finally:
            self._counts.remove(limit)

    def _limit(self, caller: Caller) -> CountLimit:
        key = entry_of("limit", caller.key)
        if caller.tokens_per_second is None:
            return CountLimit(key, caller.max_streams, caller.requests_per_minute, RENEW_S)
        on_count = partial(self._share, caller.key)
        return CountLimit(key, caller.max_streams, caller.requests_per_minute, _PACE_S, on_count)

    def _share(self, key: str, own: int, total: int) -> None:
        self._on_share(key, own / total if own else 1.0)


def entry_of(kind: str, name: str) -> str:
    """The key of an entry, from any text."""
    return f"{kind}-{hashlib.sha256(name.encode()).hexdigest()[:32]}"
