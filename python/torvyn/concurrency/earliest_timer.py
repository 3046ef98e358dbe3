"""One timer of a loop for many deadlines: it is due at the earliest of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class EarliestTimer:
    """Calls `act` once per time it is due; `act` looks which deadlines have passed."""

    __slots__ = ("_act", "_due_s", "_handle", "_loop")

    def __init__(self, loop: asyncio.AbstractEventLoop, act: Callable[[], None]) -> None:
        self._loop = loop
        self._act = act
        self._handle: asyncio.Handle | None = None
        # Not read from the handle: that of uvloop has no time if it is due at once.
        self._due_s = 0.0

    def arm(self, due_s: float) -> None:
        """An earlier time stays: most calls change nothing."""
        if self._handle is not None:
            if self._due_s <= due_s:
                return
            self._handle.cancel()
        self._due_s = due_s
        self._handle = self._loop.call_at(due_s, self._on_due)

    def close(self) -> None:
        """It is never due again. Breaks the reference cycle with its owner."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        self._act = _nothing

    def _on_due(self) -> None:
        self._handle = None
        self._act()


def _nothing() -> None:
    """Replaces `act` after the end."""
