"""Pushes an answer to a reader that buffers, such as a connection.

A task switch per token would cost more than the token. So the push is advanced by hand: while the
engine has steps ready, the reader buffers their pieces; when the engine waits, the reader sends
what it has buffered, and then the engine's own wait is passed to the event loop.
"""

from __future__ import annotations

import asyncio
import types
from collections.abc import Awaitable, Generator
from typing import Any

from torvyn.engine.answer.answer import Answer, Reader


@types.coroutine
def push_buffered(answer: Answer, reader: Reader) -> Generator[Any, Any, None]:
    """Gives every piece to the reader and flushes it whenever the answer waits. What the reader
    buffered last, it sends itself."""
    pushing = answer.push(reader)
    flush = reader.flush
    error: BaseException | None = None
    while True:
        try:
            waits_for = pushing.send(None) if error is None else pushing.throw(error)
        except StopIteration:
            return
        finally:
            error = None  # its traceback refers to this frame: avoid the cycle
        if (sending := flush()) is not None:
            error = yield from _flushed(sending, waits_for)
        if error is None:
            try:
                yield waits_for
            except BaseException as raised:
                # The engine sees how its wait ended, for example a refused connection.
                error = raised


async def _flushed(sending: Awaitable[None], waits_for: Any) -> BaseException | None:
    """Sends while the engine waits; returns the exception that the engine still has to see."""
    try:
        await sending
    except asyncio.CancelledError as raised:
        # The task seems to wait for the engine, so the cancellation is meant for the engine's wait.
        if waits_for is None or not waits_for.cancel():
            return raised
    except Exception as raised:
        return raised
    return None
