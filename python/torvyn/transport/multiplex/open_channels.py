"""The channels that are open: counted per key, drained when the server shuts down."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from torvyn.transport.access.key_limits import too_many_connections
from torvyn.transport.rejection import busy

if TYPE_CHECKING:
    from torvyn.transport.access.caller import Caller
    from torvyn.transport.multiplex.multiplexer import Multiplexer

SPARE: Final = 8
"""How many connections a key may have beyond its streams: when a client reconnects, the server may
not have noticed yet that its old connection is gone."""


class OpenChannels:
    """Of one application. Calls `begin` and `end` for each, so that the server is not idle."""

    def __init__(self, begin: Callable[[], None], end: Callable[[], None]) -> None:
        self._begin = begin
        self._end = end
        self._multiplexers: set[Multiplexer] = set()
        self._on_empty: Callable[[], None] | None = None

    def __len__(self) -> int:
        return len(self._multiplexers)

    def __iter__(self) -> Iterator[Multiplexer]:
        return iter(self._multiplexers)

    def check(self, caller: Caller, limit: int) -> None:
        """Raises a rejection at the limit, and at the limit of the caller's key."""
        if len(self._multiplexers) >= limit:
            raise busy()
        if caller.max_streams is not None:
            own = sum(one.channel.caller.key == caller.key for one in self._multiplexers)
            if own >= caller.max_streams + SPARE:
                raise too_many_connections(own)

    @contextlib.contextmanager
    def register(self, multiplexer: Multiplexer) -> Iterator[None]:
        self._multiplexers.add(multiplexer)
        self._begin()
        try:
            yield
        finally:
            self._multiplexers.discard(multiplexer)
            self._end()
            if not self._multiplexers and self._on_empty is not None:
                self._on_empty()

    def when_empty(self, callback: Callable[[], None]) -> None:
        """Calls it when no channel is open: now, or when the last one closes."""
        if self._multiplexers:
            self._on_empty = callback
        else:
            callback()

    def drain(self) -> None:
        """Closes each channel after its last stream."""
        for multiplexer in list(self._multiplexers):
            multiplexer.drain()

    def hurry(self) -> None:
        """Sends what is left without waiting for credit."""
        for multiplexer in self._multiplexers:
            multiplexer.hurry()
