"""langchain-core: a chain of two `RunnableGenerator`s that is fed and read token by token.

`transform` (sync) is the fastest idiomatic form: a chain of pulled generators with a copy of every
input kept for tracing. `langchain-async` is the same chain through `atransform`, which servers use;
it schedules a task per chunk and stage. Making the source a third Runnable and calling
`.stream(None)` costs a sixth more (sync) or half more (async).
"""

# The peer may be missing or untyped; mypy must give the same result in both cases.
# mypy: disable-error-code="import-not-found,import-untyped,misc,no-untyped-call"
# mypy: no-warn-unused-ignores

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import AsyncIterator, Iterator

from benches.peers import distribution_version
from benches.work import BLOCKED_WORDS, STOPS, Result

NAME = "langchain-sync"


def VERSION() -> str:
    return f"langchain-core {distribution_version('langchain-core')}"


def available() -> str | None:
    if importlib.util.find_spec("langchain_core") is None:
        return "langchain-core is not installed"
    return None


class _Filter:
    def __init__(self) -> None:
        self.filtered = 0

    def stream(self, stream: Iterator[str]) -> Iterator[str]:
        blocked = BLOCKED_WORDS
        for token in stream:
            if token.strip().lower() in blocked:
                self.filtered += 1
            else:
                yield token

    async def stream_async(self, stream: AsyncIterator[str]) -> AsyncIterator[str]:
        blocked = BLOCKED_WORDS
        async for token in stream:
            if token.strip().lower() in blocked:
                self.filtered += 1
            else:
                yield token


def _sentences(stream: Iterator[str]) -> Iterator[str]:
    buffer: list[str] = []
    for token in stream:
        buffer.append(token)
        if token.rstrip().endswith(STOPS):
            yield "".join(buffer).strip()
            buffer.clear()
    rest = "".join(buffer).strip()
    if rest:
        yield rest


async def _sentences_async(stream: AsyncIterator[str]) -> AsyncIterator[str]:
    buffer: list[str] = []
    async for token in stream:
        buffer.append(token)
        if token.rstrip().endswith(STOPS):
            yield "".join(buffer).strip()
            buffer.clear()
    rest = "".join(buffer).strip()
    if rest:
        yield rest


def run(tokens: list[str]) -> Result:
    from langchain_core.runnables import RunnableGenerator

    guard = _Filter()
    chain = RunnableGenerator(guard.stream) | RunnableGenerator(_sentences)
    texts = list(chain.transform(iter(tokens)))
    return Result(len(texts), guard.filtered, texts)


async def _flow_async(tokens: list[str]) -> Result:
    from langchain_core.runnables import RunnableGenerator

    async def source() -> AsyncIterator[str]:
        for token in tokens:
            yield token

    guard = _Filter()
    chain = RunnableGenerator(guard.stream_async) | RunnableGenerator(_sentences_async)
    texts = [text async for text in chain.atransform(source())]
    return Result(len(texts), guard.filtered, texts)


def run_async(tokens: list[str]) -> Result:
    return asyncio.run(_flow_async(tokens))


VARIANTS = {"langchain-async": run_async}
