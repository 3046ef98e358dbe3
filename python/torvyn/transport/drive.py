"""Deltas -> chunks: takes what an engine has ready, and sends when it has nothing.

A task switch for every token would cost more than the token. So the engine's generator is advanced
by hand: as long as it answers without waiting, deltas are gathered; when it waits, what was
gathered is sent first, and then the wait is handed on to the loop as it is.
"""

from __future__ import annotations

import asyncio
import types
from collections.abc import AsyncGenerator, Callable, Generator
from typing import Any

from torvyn.engine.delta import Delta

Flush = Callable[[], Generator[Any, Any, None]]


@types.coroutine
def drive(
    deltas: AsyncGenerator[Delta, None], take: Callable[[Delta], bool], flush: Flush
) -> Generator[Any, Any, None]:
    """Gives every delta to `take`; flushes when that says so and whenever the engine waits."""
    advance = deltas.__anext__
    while True:
        step: Any = advance()
        try:
            waits_for = step.send(None)
        except StopIteration as ready:
            delta = ready.value
        except StopAsyncIteration:
            return
        else:
            delta = yield from _waited(step, waits_for, flush)
            if delta is None:
                return
        if take(delta):
            yield from flush()


def _waited(step: Any, waits_for: Any, flush: Flush) -> Generator[Any, Any, Delta | None]:
    """The delta for which the engine waits; None at its end."""
    error: BaseException | None = None
    try:
        yield from flush()
    except asyncio.CancelledError as raised:
        # It was the engine's wait that was meant: it is what the task seems to be doing.
        if waits_for is None or not waits_for.cancel():
            error = raised
    except Exception as raised:
        error = raised
    while True:
        if error is None:
            try:
                yield waits_for
            except BaseException as raised:
                # However the wait ended, that is the engine's: a refused connection, too.
                error = raised
        try:
            if error is None:
                waits_for = step.send(None)
            else:
                thrown, error = error, None
                waits_for = step.throw(thrown)
        except StopIteration as ready:
            made: Delta = ready.value
            return made
        except StopAsyncIteration:
            return None
