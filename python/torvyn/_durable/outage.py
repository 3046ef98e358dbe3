"""What a carrier does while its disk or its broker fails: it tries again, with delays that grow."""

from __future__ import annotations

import logging
import time
from typing import Final

from torvyn._io.backoff import Backoff
from torvyn.errors import StoreUnavailable

logger = logging.getLogger("torvyn.durable")

FULL_PAUSE_S: Final = 0.01
"""How long a full log is left to its reader."""
FIRST_RETRY_S, LONGEST_RETRY_S = 0.1, 5.0


class Outage:
    def __init__(self, flow: str, longest_s: float = LONGEST_RETRY_S) -> None:
        self._flow = flow
        self._backoff = Backoff(FIRST_RETRY_S, longest_s)
        self.retry_at_s = 0.0
        self.is_degraded = False

    def note_success(self, has_committed: bool) -> None:
        if self.is_degraded and has_committed:
            self.is_degraded = False
            self._backoff.reset()
            self.retry_at_s = 0.0
            logger.warning("flow `%s` is durable again", self._flow)

    def note_failure(self, error: StoreUnavailable, has_committed: bool) -> None:
        if error.reason == "limit":
            # Not a failure of the disk: the reader makes room.
            self.note_success(has_committed)
            self.retry_at_s = time.monotonic() + FULL_PAUSE_S
            return
        self.retry_at_s = time.monotonic() + self._backoff.next_delay_s()
        if not self.is_degraded:
            self.is_degraded = True
            extra = {"hint": error.hint}
            logger.warning("flow `%s` is degraded: %s", self._flow, error, extra=extra)
