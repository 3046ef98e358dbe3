"""What a transport is to the rest of the client: a way to open a stream, and its frames as they
arrive on one connection. Whether to open another one is the business of `course`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from torvyn.errors import Unavailable
from torvyn.protocol.frames import Frame


class Cut(Exception):
    """A connection ended, or fell silent, before the answer did."""


class Arrival(Protocol):
    """One connection's frames."""

    @property
    def epoch(self) -> str | None:
        """Of the generation that is read: the first part of its frames' ids."""
        ...

    async def read(self) -> Sequence[Frame]:
        """What has arrived together, heartbeats included. Raises `Cut`; or what is wrong with it.
        A `close` meanwhile ends it with `Cut`."""
        ...

    def close(self) -> None:
        """At once. Nothing of an answer that was read to its end is lost by it."""
        ...


@dataclass(frozen=True, slots=True)
class Opening:
    """How a stream begins: by asking, or by the id of one that runs."""

    kind: Literal["ask", "resume", "observe"]
    body: Mapping[str, Any] | None = None
    id: str | None = None
    after: str | int | None = None
    """An event id, or the number of a frame."""


class Wire(Protocol):
    """A transport. What a server refuses is a `ServerError`; when there is no server,
    `client.unreachable`."""

    name: str

    async def open(self, opening: Opening) -> Arrival | None:
        """The first frame is about to arrive; None: there is nothing more to read."""
        ...

    async def end(self, id: str, *, cancel: bool) -> bool:
        """Stops or cancels a stream; False when it had ended."""
        ...

    async def update(self, id: str, changes: Mapping[str, Any]) -> None: ...

    async def aclose(self) -> None: ...


def is_unreachable(error: Exception) -> bool:
    return isinstance(error, Unavailable) and error.code == "client.unreachable"
