"""How much sessions keep: each of a few as much as one may; more than a few share a limit."""

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
        self._few = max(1, self.limit_bytes // self._whole_bytes)
        self._planned = self._few
        """How many sessions the shares are for."""

    def share_bytes(self) -> int:
        """What each session may keep at the moment."""
        return min(self._whole_bytes, max(_LEAST_BYTES, self.limit_bytes // self._planned))

    def plan(self, sessions: int) -> bool:
        """Plans for that many sessions; whether their shares became smaller."""
        has_shrunk = sessions > self._planned
        if has_shrunk or sessions < self._planned / (2 * _MORE):
            self._planned = max(self._few, int(_MORE * sessions) + 1)
        return has_shrunk
