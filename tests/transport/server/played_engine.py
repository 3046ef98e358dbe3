"""An engine that plays a script of steps, and the steps that its run had to look at."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from live_server import Served, served
from told_answers import GUARDS

from torvyn.engine import ChoiceStep, Engine, Request, Service, Step
from torvyn.engine.answer.direct_path import DirectPath

PAUSE, FAILURE = None, "failure"


class Played(Engine):
    """Plays steps, and waits for a turn of the loop where there is a pause."""

    name = "played"

    def __init__(self, script: Sequence[Step | str | None]) -> None:
        super().__init__()
        self._script = script

    async def steps(self, request: Request) -> AsyncIterator[Step]:
        for each in self._script:
            if each is PAUSE:
                await asyncio.sleep(0)
            elif each == FAILURE:
                raise ValueError("boom")
            elif isinstance(each, Step):
                yield each


def text(value: str) -> Step:
    return Step((ChoiceStep(text=value),))


@contextmanager
def playing(script: Sequence[Any], guard: str = "none", **options: Any) -> Iterator[Served]:
    service = Service("chat", Played(script), make_flow=GUARDS[guard])
    with served({"chat": service}, **options) as server:
        yield server


def words(count: int, is_paced: bool = True) -> list[Step | None]:
    """Texts, with a pause after each if it is paced."""
    return [each for n in range(count) for each in (text(f"word{n} "), *[PAUSE] * is_paced)]


@pytest.fixture
def left(monkeypatch: pytest.MonkeyPatch) -> list[Step | None]:
    """The steps that native code has left to Python."""
    steps: list[Step | None] = []
    pieces = DirectPath.pieces

    def looking(self: DirectPath, step: Step | None) -> Any:
        steps.append(step)
        return pieces(self, step)

    monkeypatch.setattr(DirectPath, "pieces", looking)
    return steps
