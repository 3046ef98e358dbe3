"""Pacing: the deltas of an answer, no faster than a key may have them.

Whoever reads them drives the engine, so it is the engine that is slowed, and nothing is cut.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Final

from torvyn.engine.delta import Delta
from torvyn.transport.access.key_limits import Pace

_GRAIN_S: Final = 0.02
"""Shorter debts are carried on: a timer for every token would cost more than the token."""

Pause = Callable[[float], Awaitable[None]]


async def paced(
    deltas: AsyncGenerator[Delta, None], pace: Pace, pause: Pause, made: Callable[[], int]
) -> AsyncGenerator[Delta, None]:
    """The same deltas. `pause` waits so many seconds, or less when the answer ends. `made` tells
    how many tokens there were: a flow may make one delta of many."""
    paid = 0
    try:
        await pause(pace.debt_s())
        async for delta in deltas:
            yield delta
            count = made()
            wait_s = pace.spend(max(0, count - paid))
            paid = max(paid, count)
            if wait_s > _GRAIN_S:
                await pause(wait_s)
    finally:
        await deltas.aclose()
