"""What the server and its absence mean for the caller.

A broker that is away is not the end of a flow: the caller keeps what it has and tries again.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from torvyn.durable import StoreUnavailable
from torvyn.errors import FlowError

FULL: Final = (10077, 10047)
"""Error codes of the server: a stream or a subject has reached its limit."""
WRONG_REVISION: Final = (10071, 10164)
"""Error codes of the server: somebody else has written the entry."""
NO_STREAM: Final = 503
"""The code of an answer that no stream gave."""
DENIED_HINT: Final = (
    "give the user this right in `permissions` of the server; the guide to clusters lists all that "
    "flows need"
)
_REJECTIONS: Final = ("authorization violation", "authentication", "certificate required")
"""What the reasons say then."""
_DENIED: Final = re.compile(
    r'permissions violation for (publish|subscription) to "([^"]+)"', re.IGNORECASE
)
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


class Denial(NamedTuple):
    """The server does not let us publish on a subject, or subscribe to it."""

    is_publish: bool
    subject: str

    @classmethod
    def parse(cls, text: str) -> Denial | None:
        """Of what the server says; None if it says something else. nats-py makes it lower case."""
        found = _DENIED.search(text)
        if found is None:
            return None
        return cls(found[1].lower() == "publish", found[2])

    @property
    def right(self) -> str:
        return f"{'publish on' if self.is_publish else 'subscribe to'} `{self.subject}`"


class BrokerDenied(BrokerUnavailable):
    """A right is missing at the broker."""

    def __init__(self, address: str, denial: Denial) -> None:
        message = f"the broker at {address} does not let us {denial.right}"
        StoreUnavailable.__init__(self, "io", message, hint=DENIED_HINT, code="broker.denied")

    @property
    def is_lasting(self) -> bool:
        """Only somebody who changes the server's configuration can help."""
        return True


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
    hint = "start a NATS server with JetStream (`nats-server -js`), or correct `[cluster] nats`"
    if is_rejection(reason):
        hint = "correct the credentials in `[cluster]`; the guide to clusters lists the settings"
    return FlowError("broker.away", f"the broker at {urls} cannot be used: {reason}", hint=hint)


def is_rejection(reason: str) -> bool:
    """Whether the server answers, and does not know us."""
    return any(each in reason.lower() for each in _REJECTIONS)
