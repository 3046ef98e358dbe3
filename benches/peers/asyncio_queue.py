"""Four asyncio tasks joined by `asyncio.Queue(64)`: stages and back-pressure, written by hand.

`await put` and `await get` do not yield to the loop unless the queue is full or empty, so tasks run
in bursts of 64.
"""

from __future__ import annotations

import asyncio
import platform

from benches.work import BLOCKED_WORDS, QUEUE_DEPTH, STOPS, Result

NAME = "asyncio-queue"

Queue = asyncio.Queue[str | None]
"""None ends the stream."""


def VERSION() -> str:
    return f"Python {platform.python_version()}"


def available() -> str | None:
    return None


async def _source(tokens: list[str], out: Queue) -> None:
    for token in tokens:
        await out.put(token)
    await out.put(None)


async def _filter(into: Queue, out: Queue) -> int:
    filtered = 0
    blocked = BLOCKED_WORDS
    while (token := await into.get()) is not None:
        if token.strip().lower() in blocked:
            filtered += 1
        else:
            await out.put(token)
    await out.put(None)
    return filtered


async def _aggregate(into: Queue, out: Queue) -> None:
    buffer: list[str] = []
    while (token := await into.get()) is not None:
        buffer.append(token)
        if token.rstrip().endswith(STOPS):
            await out.put("".join(buffer).strip())
            buffer.clear()
    rest = "".join(buffer).strip()
    if rest:
        await out.put(rest)
    await out.put(None)


async def _sink(into: Queue) -> list[str]:
    texts: list[str] = []
    while (text := await into.get()) is not None:
        texts.append(text)
    return texts


async def _flow(tokens: list[str]) -> Result:
    first, second, third = Queue(QUEUE_DEPTH), Queue(QUEUE_DEPTH), Queue(QUEUE_DEPTH)
    async with asyncio.TaskGroup() as group:
        group.create_task(_source(tokens, first))
        filtering = group.create_task(_filter(first, second))
        group.create_task(_aggregate(second, third))
        sinking = group.create_task(_sink(third))
    return Result(len(sinking.result()), filtering.result(), sinking.result())


def run(tokens: list[str]) -> Result:
    return asyncio.run(_flow(tokens))
