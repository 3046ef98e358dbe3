"""The interface of a transport: it opens a stream, and returns the frames of one connection.

`resumable_stream` decides whether to open another connection.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from torvyn.errors import Unavailable
from torvyn.protocol.frames import Frame


class ConnectionLost(Exception):
    """A connection ended or went idle before the answer ended."""


class FrameReader(Protocol):
    """The frames of a stream that arrive on one connection."""

    @property
    def epoch(self) -> str | None:
        """The epoch of the session: the first part of its event ids."""
        ...

    async def read(self) -> Sequence[Frame]:
        """The frames that arrived together, heartbeats included. Raises `ConnectionLost`, also
        when `close` is called meanwhile."""
        ...

    def close(self) -> None:
        """Closes it at once. A connection that was read to its end is kept for reuse."""
        ...


@dataclass(frozen=True, slots=True)
class StreamRequest:
    """How to open a stream: with a request body, or by the id of a running stream."""

    kind: Literal["start", "resume", "observe"]
    body: Mapping[str, Any] | None = None
    id: str | None = None
    after: str | int | None = None
    """An event id, or the number of a frame."""


class Transport(Protocol):
    """Raises a `ServerError` for a rejection, and `client.unreachable` if no server answers."""

    name: str

    async def open(self, request: StreamRequest) -> FrameReader | None:
        """Waits until the first frame is about to arrive; None if everything has been read."""
        ...

    async def end(self, id: str, *, cancel: bool) -> bool:
        """Stops or cancels a stream; False if it had already ended."""
        ...

    async def update(self, id: str, changes: Mapping[str, Any]) -> None: ...

    async def aclose(self) -> None: ...


def is_unreachable(error: Exception) -> bool:
    return isinstance(error, Unavailable) and error.code == "client.unreachable"
