"""Pipecat: its `SimpleTextAggregator`, which makes sentences for speech, fed token by token."""

# The peer may be missing or untyped; mypy must give the same result in both cases.
# mypy: disable-error-code="import-not-found,import-untyped,misc,no-untyped-call"
# mypy: no-warn-unused-ignores

from __future__ import annotations

import asyncio


def split(tokens: list[str]) -> list[str]:
    from loguru import logger
    from pipecat.utils.text.simple_text_aggregator import SimpleTextAggregator

    logger.remove()

    async def stream() -> list[str]:
        aggregator = SimpleTextAggregator()
        sentences = []
        for token in tokens:
            async for sentence in aggregator.aggregate(token):
                sentences.append(sentence.text)
        rest = await aggregator.flush()
        return [*sentences, rest.text] if rest else sentences

    return asyncio.run(stream())
