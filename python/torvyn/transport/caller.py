"""Who asks: the name of a key, the tenant that owns what it starts, and what it may use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """What belongs to a tenant is seen by its callers alone."""

    name: str = ""
    tenant: str = ""


ANYONE: Final = Caller()
"""Where nobody is asked for a key, all are one."""
