"""The HTTP client of the engine: the native one, or aiohttp's.

Both send a request and read its response; what fails is an error of `failures`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias
from urllib.parse import urlsplit

from torvyn.engine.openai.failures import Upstream

if TYPE_CHECKING:
    from torvyn._native import ServerEvent, WireReply

Part: TypeAlias = "tuple[int, str] | ServerEvent"
"""A part of an OpenAI stream, as `ChunkParser` has them."""
ClientName = Literal["native", "aiohttp"]


class Direct(NamedTuple):
    """The direct path of a response, for clients that can take it."""

    arm: Callable[[WireReply], None]
    """Called before each wait for the response, the first time when the request has been sent."""
    idle_s: float
    """Text on that path moves the deadline of the wait to so long after it."""


class UpstreamResponse(ABC):
    """A response whose head has arrived."""

    __slots__ = ("content_type", "status")

    def __init__(self, status: int, content_type: str) -> None:
        self.status = status
        self.content_type = content_type
        """Without its parameters."""

    @property
    @abstractmethod
    def headers(self) -> Mapping[str, str]:
        """By lower-case names."""

    @abstractmethod
    async def read(self, deadline_s: float) -> bytes:
        """The next bytes of its body; none at the end. Raises `TimeoutError` at the deadline, a
        time of the loop; `OSError` if the connection breaks; a typed error if the bytes cannot be
        unpacked."""

    async def read_stream(self, deadline_s: float) -> bytes | list[Part]:
        """The same, or the parts that a direct path has left."""
        return await self.read(deadline_s)

    @property
    def direct_idle_s(self) -> float | None:
        """Seconds since text last took the direct path; None if it never has."""
        return None

    @abstractmethod
    def close(self) -> None:
        """Closes the connection at once."""

    @abstractmethod
    def release(self) -> None:
        """Keeps the connection for another request: the end of the body is about to arrive."""


class UpstreamClient(ABC):
    """Connections to one upstream."""

    def __init__(self, upstream: Upstream, connect_timeout_s: float) -> None:
        self._upstream = upstream
        self._url = urlsplit(upstream.url)
        self._connect_s = connect_timeout_s

    @abstractmethod
    async def post(
        self,
        path: str,
        headers: Mapping[str, str],
        body: bytes,
        deadline_s: float,
        direct: Direct | None = None,
    ) -> UpstreamResponse:
        """Sends a request to a path below the upstream's address. Raises a typed error if there is
        no response, and `TimeoutError` at the deadline, a time of the loop."""

    @abstractmethod
    def close(self) -> None: ...

    @abstractmethod
    async def aclose(self) -> None: ...

    def _not_accepted(self) -> Exception:
        what = "did not accept a connection"
        return self._upstream.timeout(what, self._connect_s, "connect_timeout_s")
