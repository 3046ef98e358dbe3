"""Driving by hand: takes what an engine has ready, and lets its reader send when it has nothing.

A task switch for every token would cost more than the token. So the engine's generator is advanced
by hand: as long as it answers without waiting, what it gives is gathered; when it waits, what was
gathered is sent first, and then the wait is handed on to the loop as it is.
"""

from __future__ import annotations

import asyncio
import contextlib
import types
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator
from typing import Any, Final, Protocol, TypeVar

from torvyn.engine.delta import Delta

Sending = Generator[Any, Any, bool | None]
Item = TypeVar("Item")
ENOUGH: Final = True
"""Said by who wants no more: by `take`, or at the end of what it wants to be waited for."""
BREATH: Final = 256
"""Items after which the loop is let in, should the engine never wait for anything."""


class Reader(Protocol):
    """Who is given an answer while it is made."""

    def say(self, text: str) -> bool:
        """Text of the only choice, and nothing else: most of what there is. Whether to send."""

    def take(self, delta: Delta) -> bool:
        """Anything. Whether it is time to send."""

    def flush(self) -> Sending | None:
        """Sends what was gathered; what is left to wait for, if anything."""


@types.coroutine
def drive(
    items: AsyncIterator[Item],
    take: Callable[[Item], Sending | bool | None],
    flush: Callable[[], Sending | None],
) -> Generator[Any, Any, None]:
    """Gives every item to `take`, and flushes whenever the engine waits. What `take` answers is
    waited for before the next; `ENOUGH` ends it."""
    advance: Any = items.__anext__
    while True:
        for _ in range(BREATH):
            step = advance()
            try:
                waits_for = step.send(None)
                # One generator less a token: the wait is here and not in a function of its own.
                error: BaseException | None = None
                if (sending := flush()) is not None:
                    error = yield from _flushed(sending, waits_for)
                while True:
                    if error is None:
                        try:
                            yield waits_for
                        except BaseException as raised:
                            # However it ended, that is the engine's: a refused connection, too.
                            error = raised
                    if error is None:
                        waits_for = step.send(None)
                    else:
                        thrown, error = error, None
                        try:
                            waits_for = step.throw(thrown)
                        finally:
                            del thrown  # it leads back here, and would keep what is held here
            except StopIteration as ready:
                item = ready.value
            except StopAsyncIteration:
                return
            pause = take(item)
            if pause is not None and (pause is ENOUGH or (yield from pause) is ENOUGH):  # type: ignore[misc]
                return
        yield


def _flushed(sending: Sending, waits_for: Any) -> Generator[Any, Any, BaseException | None]:
    """Sends while the engine waits. A cancellation that is left to tell the engine."""
    try:
        yield from sending
    except asyncio.CancelledError as raised:
        # It was the engine's wait that was meant: it is what the task seems to be doing.
        if waits_for is None or not waits_for.cancel():
            return raised
    except Exception as raised:
        return raised
    return None


async def push(deltas: AsyncGenerator[Delta, None], reader: Reader) -> None:
    """Gives the reader every delta, in this task."""

    def take(delta: Delta) -> Sending | None:
        return reader.flush() if reader.take(delta) else None

    async with contextlib.aclosing(deltas):
        await drive(deltas, take, reader.flush)
