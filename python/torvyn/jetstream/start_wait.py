"""How long the start of a flow waits for its broker.

A service that starts before its broker is normal, so a segment waits until the broker is there. An
address that can never work, or a password that is wrong, ends the wait at once.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from typing import Final

from torvyn.components.connection import Connection
from torvyn.jetstream.failures import BrokerUnavailable, unavailable_at_start
from torvyn.text.redaction import without_credentials

logger = logging.getLogger("torvyn.durable")

SCHEMES: Final = ("nats", "tls", "ws", "wss")
LASTING: Final = (
    "authorization violation",
    "authentication",
    "certificate verify failed",
    "connect url",
    "invalid url",
)
"""What the reasons say that do not pass by themselves."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.001, 0.02
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

    def wait_for(self, connection: Connection) -> None:
        """Waits until it is established; raises `broker.away` if that makes no sense any more."""
        pause_s = FIRST_PAUSE_S
        while not connection.is_connected:
            reason = connection.status.reason or "it does not answer"
            if _is_lasting(reason) or not self._may_wait(pause_s):
                raise unavailable_at_start(connection.address, reason)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    def retry(self, error: BrokerUnavailable) -> None:
        """Waits before the next attempt at a broker that answers and is not ready; raises the error
        if there is none."""
        if error.message != self._logged:
            self._logged = error.message
            logger.warning("flow `%s` waits for its broker: %s", self._flow, error.message)
        if not self._may_wait(RETRY_S):
            raise error

    def _may_wait(self, pause_s: float) -> bool:
        return not self._given_up.wait(pause_s) and time.monotonic() < self._end_s


def check_addresses(urls: str) -> None:
    """Raises if an address has a scheme that no NATS server has."""
    for url in (each.strip() for each in urls.split(",")):
        scheme, found, _ = url.partition("://")
        if found and scheme not in SCHEMES:
            expected = ", ".join(f"`{each}://`" for each in SCHEMES)
            reason = f"`{scheme}://` is not one of {expected}"
            raise unavailable_at_start(without_credentials(url), reason)


def _is_lasting(reason: str) -> bool:
    lowered = reason.lower()
    return any(each in lowered for each in LASTING)
