"""Sends text through a jitter buffer on an event loop; reads at most one piece ahead."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable

from torvyn.client.jitter_buffer import JitterBuffer

Texts = AsyncGenerator[str, None]


async def pace_text(
    texts: Texts, bound_s: float, clock: Callable[[], float] | None = None
) -> Texts:
    """The same text at an even rate. An error is raised after the text that precedes it."""
    clock = clock or asyncio.get_running_loop().time
    buffer = JitterBuffer(bound_s)
    reading = asyncio.ensure_future(_next(texts))
    try:
        while True:
            due_s = buffer.due_s
            if due_s is not None and due_s <= (now_s := clock()):
                if text := buffer.take(now_s):
                    yield text
                continue
            pause_s = None if due_s is None else due_s - clock()
            if reading.done() and _is_end(reading):
                if due_s is None:
                    reading.result()
                    return
                buffer.finish()
                await asyncio.sleep(max(0.0, pause_s or 0.0))
                continue
            await asyncio.wait({reading}, timeout=pause_s)
            if reading.done() and not _is_end(reading):
                buffer.put(reading.result() or "", clock())
                reading = asyncio.ensure_future(_next(texts))
    finally:
        reading.cancel()
        with contextlib.suppress(BaseException):
            await reading
        await texts.aclose()


async def _next(texts: Texts) -> str | None:
    """The next piece; None at the end."""
    return await anext(texts, None)


def _is_end(reading: asyncio.Future[str | None]) -> bool:
    return reading.exception() is not None or reading.result() is None
