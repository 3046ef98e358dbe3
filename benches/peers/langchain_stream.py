"""LangChain: `astream` of its fake chat model, its string parser, then the plain guards.

The model is the one LangChain ships for tests; it streams the words of one message."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from benches.peers.plain_stream import _EMAIL, _WORDS, _guarded, _sentences


async def langchain_stream(tokens: list[str]) -> str:
    from langchain_core.language_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage
    from langchain_core.output_parsers import StrOutputParser

    model = GenericFakeChatModel(messages=iter([AIMessage(content="".join(tokens))]))
    chain: Any = model | StrOutputParser()
    text: AsyncIterator[str] = chain.astream("x")
    guarded = _guarded(_guarded(_sentences(text), _WORDS), _EMAIL)
    return "".join([said async for said in guarded])
