"""How long the start of a flow waits for what stores its data: a disk, or a broker.

A disk that is full, or a broker that starts later, is not the end of a flow. A start that can never
work ends at once.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from typing import Final

from torvyn.errors import StoreUnavailable

logger = logging.getLogger("torvyn.durable")

RETRY_S: Final = 0.25


class StartWait:
    """`give_up` may be called from any thread."""

    def __init__(self, flow: str, limit_s: float | None) -> None:
        self._flow = flow
        self._end_s = math.inf if limit_s is None else time.monotonic() + limit_s
        self._given_up = threading.Event()
        self._logged = ""

    def give_up(self) -> None:
        self._given_up.set()

    @property
    def is_given_up(self) -> bool:
        return self._given_up.is_set()

    def retry(self, error: StoreUnavailable) -> None:
        """Waits before the next attempt; raises the error if there is none."""
        if error.is_lasting:
            raise error
        if error.message != self._logged:
            self._logged = error.message
            extra = {"event": "flow.waiting", "hint": error.hint}
            logger.warning("flow `%s` waits to start: %s", self._flow, error.message, extra=extra)
        if not self.may_wait(RETRY_S):
            raise error

    def may_wait(self, pause_s: float) -> bool:
        """Waits so long; returns whether it makes sense to go on."""
        return not self._given_up.wait(pause_s) and time.monotonic() < self._end_s
