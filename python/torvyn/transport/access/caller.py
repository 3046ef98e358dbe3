"""Who asks: the name of a key, the tenant that owns what it starts, and what it may use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """What belongs to a tenant is seen by its callers alone. None: without that limit."""

    name: str = ""
    tenant: str = ""
    key: str = ""
    """The hash of the key; empty for anyone."""
    priority: str | None = None
    """The highest that requests may ask for, and what they have when they ask for none."""
    max_streams: int | None = None
    requests_per_minute: int | None = None
    tokens_per_second: float | None = None
    expires_s: float | None = None
    """In seconds of the epoch."""


ANYONE: Final = Caller()
"""Where nobody is asked for a key, all are one."""
