"""Loops on which a flow depends, on a thread or in a task: none ends before it is told to.

A loop that raises is logged, reported to whoever depends on it, and begun again after a delay.
Otherwise an exception that nobody expected would end a thread, and the flow would wait for it for
ever.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from torvyn._io.backoff import LONGEST_DELAY_S, Backoff

logger = logging.getLogger("torvyn.components")

Report: TypeAlias = Callable[[str], object]
"""Tells those who depend on a loop why it has failed."""


def keep_running(
    loop: Callable[[], object],
    wait: Callable[[float], object],
    report: Report | None = None,
    backoff: Backoff | None = None,
) -> None:
    """Calls `loop` until it returns, which it does once it is to stop. `wait` waits for so many
    seconds before the next call, and returns true if the loop is to stop."""
    restarts, delay_s = _Restarts(report, backoff), 0.0
    while True:
        try:
            if not (delay_s and wait(delay_s)):
                loop()
            return
        except BaseException as error:
            # Also `SystemExit`, with which a thread ends and nobody hears of it.
            delay_s = restarts.next_delay_s(error)


async def keep_task_running(loop: Callable[[], Awaitable[None]], report: Report) -> None:
    """The same for a coroutine function, in the present task, until the task is cancelled."""
    import asyncio

    from torvyn._io.event_loop import is_ending

    restarts = _Restarts(report)
    while True:
        try:
            await loop()
            return
        except (Exception, SystemExit) as error:
            if is_ending():
                return
            delay_s = restarts.next_delay_s(error)
        await asyncio.sleep(delay_s)


class _Restarts:
    def __init__(self, report: Report | None, backoff: Backoff | None = None) -> None:
        self._report: Final = report
        self._backoff: Final = backoff or Backoff()
        self._failed_s = time.monotonic()

    def next_delay_s(self, error: BaseException) -> float:
        """Reports a failure; returns how long to wait before the loop begins again."""
        reason = f"{type(error).__name__}: {error}"
        if time.monotonic() - self._failed_s > 2 * LONGEST_DELAY_S:
            # It has worked for longer than any delay.
            self._backoff.reset()
        self._failed_s = time.monotonic()
        delay_s = self._backoff.next_delay_s()
        text = "an unexpected error, trying again in %.1f s: %s"
        logger.error(text, delay_s, reason, exc_info=error, extra={"event": "loop.restarted"})
        try:
            if self._report is not None:
                self._report(f"an unexpected error: {reason}")
        except Exception:
            logger.exception("the error could not be reported")
        return delay_s
