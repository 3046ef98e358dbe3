"""LiveKit Agents: the streams of its two sentence tokenizers, fed token by token.

`basic` is rule-based; `blingfire`, which its agents use by default, is native code. Both split the
whole buffer again at every token.
"""

# The peer may be missing or untyped; mypy must give the same result in both cases.
# mypy: disable-error-code="import-not-found,import-untyped,misc,no-untyped-call"
# mypy: no-warn-unused-ignores

from __future__ import annotations

import asyncio
import importlib


def split(kind: str, tokens: list[str]) -> list[str]:
    tokenizer = importlib.import_module(f"livekit.agents.tokenize.{kind}").SentenceTokenizer()

    async def stream() -> list[str]:
        sentences = tokenizer.stream()
        for token in tokens:
            sentences.push_text(token)
        sentences.end_input()
        return [event.token async for event in sentences]

    return asyncio.run(stream())
