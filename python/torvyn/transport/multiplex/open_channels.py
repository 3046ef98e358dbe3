"""The conversations that are held: a server that ends tells them, and does not end before them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from torvyn.transport.access.key_limits import too_many
from torvyn.transport.rejection import busy

if TYPE_CHECKING:
    from torvyn.transport.access.caller import Caller
    from torvyn.transport.multiplex.multiplexer import Multiplexer

SPARE: Final = 8
"""How many connections a key may hold beyond the streams it may have: a client that has just come
back may not have been missed yet."""


class OpenChannels:
    """Of one application. `begin` and `end` are told of each, so that it is not taken for idle."""

    def __init__(self, begin: Callable[[], None], end: Callable[[], None]) -> None:
        self._begin = begin
        self._end = end
        self._conversations: set[Multiplexer] = set()
        self._on_none: Callable[[], None] | None = None

    def __len__(self) -> int:
        return len(self._conversations)

    def __iter__(self) -> Iterator[Multiplexer]:
        return iter(self._conversations)

    def check(self, caller: Caller, most: int) -> None:
        """Raises when there is no place for one more, or for one more of that key."""
        if len(self._conversations) >= most:
            raise busy()
        if caller.max_streams is not None:
            own = sum(held.channel.caller.key == caller.key for held in self._conversations)
            if own >= caller.max_streams + SPARE:
                raise too_many(own)

    @contextlib.contextmanager
    def hold(self, conversation: Multiplexer) -> Iterator[None]:
        self._conversations.add(conversation)
        self._begin()
        try:
            yield
        finally:
            self._conversations.discard(conversation)
            self._end()
            if not self._conversations and self._on_none is not None:
                self._on_none()

    def when_none(self, call: Callable[[], None]) -> None:
        """Calls it when there is none any more: now, or when the last one ends."""
        if self._conversations:
            self._on_none = call
        else:
            call()

    def drain(self) -> None:
        """Each ends with its last stream."""
        for conversation in list(self._conversations):
            conversation.drain()

    def hurry(self) -> None:
        """What is to be said to their clients is said now."""
        for conversation in self._conversations:
            conversation.hurry()
