"""Begins an await without a task or a coroutine of its own."""

from __future__ import annotations

import types
from collections.abc import Awaitable, Generator
from typing import Any


def begin_wait(awaited: Awaitable[None]) -> Awaitable[None] | None:
    """Runs it up to its first wait; returns what remains to wait for, if anything."""
    began: Any = awaited.__await__()
    try:
        waits_for = next(began)
    except StopIteration:
        return None
    return _resumed(began, waits_for)


@types.coroutine
def _resumed(began: Any, waits_for: Any) -> Generator[Any, Any, None]:
    """The rest of a wait that has begun; the caller sees how it ends."""
    throw = getattr(began, "throw", None)
    while True:
        try:
            try:
                yield waits_for
            except BaseException as error:
                if throw is None:
                    raise
                waits_for = throw(error)
            else:
                waits_for = next(began)
        except StopIteration:
            return
