"""What the server and its absence mean for the caller.

A broker that is away is not the end of a flow: the caller keeps what it has and tries again.
"""

from __future__ import annotations

from typing import Final

from torvyn.durable import StoreUnavailable
from torvyn.errors import FlowError

FULL: Final = (10077, 10047)
"""Error codes of the server: a stream or a subject has reached its limit."""
WRONG_REVISION: Final = (10071, 10164)
"""Error codes of the server: somebody else has written the entry."""
NO_STREAM: Final = 503
"""The code of an answer that no stream gave."""
NOT_FOUND: Final = (10037, 10059)
"""Error codes of the server: there is no such message, or no such stream."""


class BrokerUnavailable(StoreUnavailable):
    """The broker cannot take this now. Some of it may be stored nevertheless."""

    def __init__(self, message: str, *, is_full: bool = False) -> None:
        super().__init__(
            "limit" if is_full else "io",
            message,
            hint="wait until the edge is drained, or raise its limits"
            if is_full
            else "check the NATS server; the flow continues by itself",
            code="broker.full" if is_full else "broker.away",
        )


class Refused(Exception):
    """The server answered a request with an error."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text

    @property
    def is_full(self) -> bool:
        return self.code in FULL

    @property
    def is_away(self) -> bool:
        """Whether the server may accept it later: it starts, or its store does not answer."""
        return self.code in (NO_STREAM, 10008, 10009, 10023)


class Conflict(Exception):
    """Somebody else has written the entry."""


def unavailable_at_start(urls: str, reason: str) -> FlowError:
    return FlowError(
        "broker.away",
        f"the broker at {urls} cannot be used: {reason}",
        hint="start a NATS server with JetStream (`nats-server -js`), or correct `[cluster] nats`",
    )
