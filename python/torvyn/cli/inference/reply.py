"""What `generate` and `chat` need of an answer, wherever it is made."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from torvyn.engine import Delta
    from torvyn.protocol import FilterSide, FinishReason, Usage


class Wanted(Protocol):
    """What was asked for."""

    @property
    def n(self) -> int: ...
    @property
    def max_tokens(self) -> int | None: ...


class Reply(Protocol):
    """An answer on its way: a generation in the process, or a stream of a server."""

    @property
    def request(self) -> Wanted: ...
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
        """Ends it: who reads it gets the finish `cancelled`. For signal handlers too."""
        ...


class Answerer(Protocol):
    """Who answers, to be closed when nobody asks any more."""

    async def aclose(self) -> None: ...
