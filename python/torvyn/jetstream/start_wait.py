"""How long the start of a flow waits for its broker.

A service that starts before its broker is normal, so a segment waits until the broker is there. An
address that can never work, or a password that is wrong, ends the wait at once.
"""

from __future__ import annotations

from typing import Final

from torvyn._io.safe_text import without_credentials
from torvyn.components.connection import Connection
from torvyn.durable.start_wait import StartWait
from torvyn.jetstream.failures import is_rejection, unavailable_at_start

SCHEMES: Final = ("nats", "tls", "ws", "wss")
LASTING: Final = (
    "certificate verify failed",
    "connect url",
    "invalid url",
)
"""What the reasons say that do not pass by themselves."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.001, 0.02


class BrokerWait(StartWait):
    def wait_for(self, connection: Connection) -> None:
        """Waits until it is established; raises `broker.away` if that makes no sense any more."""
        pause_s = FIRST_PAUSE_S
        while not connection.is_connected:
            reason = connection.status.reason or "it does not answer"
            if _is_lasting(reason) or not self.may_wait(pause_s):
                raise unavailable_at_start(connection.address, reason)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)


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
    return is_rejection(reason) or any(each in lowered for each in LASTING)
