"""The usual hand-written version: async generators, one regular expression per guard over whole
sentences, and sentences split at full stops. It holds one sentence at a time, so its guards need
no window, but it cannot release a word before its sentence ends."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

from benches.work_stream import BLOCKED

_WORDS = re.compile(r"\b(?:" + "|".join(BLOCKED) + r")\b", re.IGNORECASE)
_EMAIL = re.compile(r"[\w.%+-]+@(?:[\w-]+\.)+[A-Za-z]{2,24}")


async def _engine(tokens: list[str]) -> AsyncIterator[bytes]:
    for token in tokens:
        yield token.encode()


async def _text(stream: AsyncIterator[bytes]) -> AsyncIterator[str]:
    async for data in stream:
        yield data.decode()


async def _sentences(stream: AsyncIterator[str]) -> AsyncIterator[str]:
    held = ""
    async for text in stream:
        held += text
        if held.endswith((".", "!", "?")):
            yield held
            held = ""
    if held:
        yield held


async def _guarded(stream: AsyncIterator[str], pattern: re.Pattern[str]) -> AsyncIterator[str]:
    async for text in stream:
        yield pattern.sub("***", text)


async def plain_stream(tokens: list[str]) -> str:
    guarded = _guarded(_guarded(_sentences(_text(_engine(tokens))), _WORDS), _EMAIL)
    return "".join([text async for text in guarded])
