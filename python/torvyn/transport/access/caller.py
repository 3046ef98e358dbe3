"""The caller: who sent a request, and what its API key allows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Callers use only the streams of their own tenant. A limit of None means unlimited."""

    name: str = ""
    tenant: str = ""
    key: str = ""
    """The hash of the API key; empty without one."""
    priority: str | None = None
    """The highest priority of its requests, and their default."""
    max_streams: int | None = None
    requests_per_minute: int | None = None
    tokens_per_second: float | None = None
    expires_s: float | None = None
    """In seconds since the epoch."""
    is_admin: bool = False
    """Sees what the server does for all tenants."""

    @property
    def is_limited(self) -> bool:
        limits = (self.max_streams, self.requests_per_minute, self.tokens_per_second)
        return any(limit is not None for limit in limits)


ANYONE: Final = Caller(is_admin=True)
"""Every caller of a server without API keys."""
