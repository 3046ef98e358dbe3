"""What one of several workers gets of a limit, and what it cannot do.

The kernel chooses the worker of a connection. So a limit of all of them together is divided, and a
stream that outlives its connection needs sessions that all of them share: the next connection may
reach another worker.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from torvyn.errors import UsageError
from torvyn.transport.rejection import Rejection

if TYPE_CHECKING:
    from torvyn.transport.settings import ServerSettings

_SHARE: Final = re.compile(r"([1-9][0-9]{0,3})/([1-9][0-9]{0,3})")


@dataclass(frozen=True, slots=True)
class Share:
    """`Share(2, 4)` is the second of four workers."""

    worker: int = 1
    workers: int = 1

    @classmethod
    def parse(cls, text: str) -> Share:
        found = _SHARE.fullmatch(text)
        if found is None or int(found[1]) > int(found[2]):
            raise UsageError("cli.bad-value", f"`--worker {text}`: not a number such as 2/4")
        return cls(int(found[1]), int(found[2]))

    def __str__(self) -> str:
        return f"{self.worker}/{self.workers}"

    @property
    def is_whole(self) -> bool:
        return self.workers == 1

    def of(self, limit: int) -> int:
        """Its part of a limit, at least 1."""
        return max(1, limit // self.workers)

    def of_rate(self, limit: float | None) -> float | None:
        return None if limit is None else limit / self.workers

    def require_sessions(self, *, is_new: bool = False) -> None:
        """Raises a rejection, because another worker may have the stream, or get the requests for
        it if it `is_new`."""
        if self.is_whole:
            return
        first = "send the request without `stateful`" if is_new else "stop it by its own connection"
        raise Rejection(
            400,
            "transport.stateful-refused",
            f"this server runs {self.workers} workers, and a stream can be found again only in the "
            "one that has it",
            hint=f"{first}, set `session_store` to a broker, or run the server with one worker",
        )


WHOLE: Final = Share()
"""A server in one process."""


def divided(settings: ServerSettings, share: Share) -> ServerSettings:
    """The settings of one worker."""
    check_shareable(settings)
    connections = settings.max_connections
    return replace(
        settings,
        share=share,
        max_streams=share.of(settings.max_streams),
        max_connections=None if connections is None else share.of(connections),
    )


def check_shareable(settings: ServerSettings) -> None:
    """Raises if several workers cannot serve with these settings."""
    if settings.session_store is not None and not settings.shares_sessions:
        raise UsageError(
            "transport.workers-refused",
            "`session_store` is a file, and several workers cannot share it",
            hint="set `session_store` to a broker, such as `nats://127.0.0.1:4222`, or run one "
            "worker",
        )
