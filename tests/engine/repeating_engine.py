"""An engine that repeats what it was asked, and keeps the requests it got."""

from __future__ import annotations

from collections.abc import AsyncIterator

from torvyn.engine import ChoiceStep, Engine, Request, Step
from torvyn.protocol.frames import Usage


class Repeats(Engine):
    """Answers with the texts of its messages, joined by `|`, word by word."""

    name = "repeats"

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[Request] = []

    async def steps(self, request: Request) -> AsyncIterator[Step]:
        self.requests.append(request)
        asked = [str(message["content"]) for message in request.messages]
        words = "|".join(asked or [request.prompt or ""]).split(" ")
        for at, word in enumerate(words):
            text = word if at == 0 else f" {word}"
            yield Step([ChoiceStep(index, text=text) for index in range(request.n)])
        yield Step(
            [ChoiceStep(index, tokens=0, finish_reason="stop") for index in range(request.n)]
        )
        yield Step((), Usage(len(words), len(words) * request.n))


def said(engine: Repeats) -> list[str]:
    """What the engine was asked, request by request."""
    return [
        request.prompt or "|".join(str(message["content"]) for message in request.messages)
        for request in engine.requests
    ]
