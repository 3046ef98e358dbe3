"""How much sessions keep: each of a few as much as one may; more than a few share a limit.

Tenants share it first, and then the sessions of each tenant: one with many sessions leaves the
others what they need.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from torvyn.transport.settings import KiB

if TYPE_CHECKING:
    from torvyn.transport.settings import ServerSettings

_LEAST_BYTES: Final = 4 * KiB
_MORE: Final = 1.25
"""Shares leave room for so many more sessions, so that not every new one shrinks the others."""


class SessionMemory:
    def __init__(self, settings: ServerSettings) -> None:
        self._whole_bytes = settings.session_bytes
        self.limit_bytes = settings.session_memory_bytes
        self._planned: dict[str, int] = {}
        """How many sessions of each tenant the shares are for."""

    def share_bytes(self, tenant: str) -> int:
        """What each session of the tenant may keep at the moment."""
        planned = self._planned.get(tenant, 1)
        return min(self._whole_bytes, max(_LEAST_BYTES, self._tenant_bytes // planned))

    @property
    def _tenant_bytes(self) -> int:
        return self.limit_bytes // max(1, len(self._planned))

    def plan(self, tenant: str, sessions: int) -> bool:
        """Plans for that many sessions of the tenant; whether shares became smaller."""
        if not sessions:
            self._planned.pop(tenant, None)
            return False
        planned = self._planned.get(tenant, 0)
        is_new = not planned and bool(self._planned)
        few = max(1, self._tenant_bytes // self._whole_bytes)
        has_shrunk = sessions > max(planned, few)
        if sessions > planned or sessions < planned / (2 * _MORE):
            self._planned[tenant] = sessions if sessions <= few else int(_MORE * sessions) + 1
        return has_shrunk or is_new
