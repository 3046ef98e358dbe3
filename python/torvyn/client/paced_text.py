"""Text through a jitter buffer, on a loop: reads one piece ahead while what waits leaves."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable

from torvyn.client.jitter_buffer import Jitter

Texts = AsyncGenerator[str, None]


async def paced(texts: Texts, bound_s: float, clock: Callable[[], float] | None = None) -> Texts:
    """The same text, evenly. What fails comes after the text before it."""
    clock = clock or asyncio.get_running_loop().time
    jitter = Jitter(bound_s)
    arriving = asyncio.ensure_future(_next(texts))
    try:
        while True:
            due_s = jitter.due_s
            if due_s is not None and due_s <= (now_s := clock()):
                if text := jitter.take(now_s):
                    yield text
                continue
            pause_s = None if due_s is None else due_s - clock()
            if arriving.done() and _is_end(arriving):
                if due_s is None:
                    arriving.result()
                    return
                jitter.finish()
                await asyncio.sleep(max(0.0, pause_s or 0.0))
                continue
            await asyncio.wait({arriving}, timeout=pause_s)
            if arriving.done() and not _is_end(arriving):
                jitter.put(arriving.result() or "", clock())
                arriving = asyncio.ensure_future(_next(texts))
    finally:
        arriving.cancel()
        with contextlib.suppress(BaseException):
            await arriving
        await texts.aclose()


async def _next(texts: Texts) -> str | None:
    """The next piece; None at the end."""
    return await anext(texts, None)


def _is_end(arriving: asyncio.Future[str | None]) -> bool:
    return arriving.exception() is not None or arriving.result() is None
