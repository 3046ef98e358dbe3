"""The interface of an answer for `generate` and `chat`, whether local or from a server."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from torvyn.engine import Delta
    from torvyn.protocol import FilterSide, FinishReason, Usage


class RequestLimits(Protocol):
    @property
    def n(self) -> int: ...
    @property
    def max_tokens(self) -> int | None: ...


class AnyGeneration(Protocol):
    """A generation in this process, or a server's stream in the same shape."""

    @property
    def request(self) -> RequestLimits: ...
    @property
    def request_id(self) -> str: ...
    @property
    def usage(self) -> Usage: ...
    @property
    def finish_reasons(self) -> tuple[FinishReason | None, ...]: ...
    @property
    def filtered_side(self) -> FilterSide | None: ...
    @property
    def timing(self) -> dict[str, float]: ...
    def __aiter__(self) -> AsyncGenerator[Delta, None]: ...
    def close(self) -> None:
        """Ends the answer with `cancelled`. Signal handlers may call it."""
        ...


class AsyncCloseable(Protocol):
    async def aclose(self) -> None: ...
