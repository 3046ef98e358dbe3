"""Cancels a task until it has ended.

A single `cancel` can get lost: `asyncio.wait_for` of Python 3.11 forgets it if what it waits for
ends at the same moment. A task that tries something again for ever then never ends.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

AGAIN_S: Final = 5.0
"""Longer than what a task does in its end, which the next `cancel` would cut short."""


async def end_task(task: asyncio.Task[Any]) -> None:
    while not task.done():
        task.cancel()
        await asyncio.wait([task], timeout=AGAIN_S)


def is_ending() -> bool:
    """Whether the present task was cancelled, even if the cancellation got lost."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
