"""A chat chunk as a pydantic model, as most servers write theirs."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel


class Delta(BaseModel):
    role: str | None = None
    content: str | None = None
    tool_calls: list[Any] | None = None


class Choice(BaseModel):
    index: int
    delta: Delta
    logprobs: Any | None = None
    finish_reason: str | None = None


class Chunk(BaseModel):
    id: str
    object: Literal["chat.completion.chunk"] = "chat.completion.chunk"
    created: int
    model: str
    choices: list[Choice]


def chunk(id: str, model: str, created: int, text: str) -> Chunk:
    choice = Choice(index=0, delta=Delta(content=text))
    return Chunk(id=id, created=created, model=model, choices=[choice])
