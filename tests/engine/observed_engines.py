"""What tests of engines look at: an engine that tells when it was left, and what still runs."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable

from torvyn._io.background_loop import background_loop
from torvyn.engine import ChoiceStep, Engine, Request, Step

SOON_S = 5.0
"""A ceiling for waits that end at once when all is well."""


class Endless(Engine):
    """Says `word ` for ever, every so often, and tells when it was stopped."""

    name = "endless"

    def __init__(self, gap_s: float = 0.0005) -> None:
        super().__init__()
        self.left = threading.Event()
        self.made = 0
        self._gap_s = gap_s

    async def steps(self, request: Request) -> AsyncIterator[Step]:
        try:
            while True:
                self.made += 1
                yield Step((ChoiceStep(text="word "),))
                await asyncio.sleep(self._gap_s)
        finally:
            self.left.set()


class Silent(Engine):
    """Never says anything."""

    name = "silent"

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.left = threading.Event(), threading.Event()

    async def steps(self, request: Request) -> AsyncIterator[Step]:
        self.begun.set()
        try:
            await asyncio.Event().wait()
            yield Step(())
        finally:
            self.left.set()


def background_tasks() -> set[asyncio.Task[object]]:
    """What the background loop still has to do."""

    async def look() -> set[asyncio.Task[object]]:
        return asyncio.all_tasks() - {asyncio.current_task()}  # type: ignore[arg-type]

    tasks = asyncio.run_coroutine_threadsafe(look(), background_loop()).result(SOON_S)
    return tasks - _before


_before: set[asyncio.Task[object]] = set()
"""What tests of other components left on the loop, which every test of this process shares."""


def note_background_tasks() -> None:
    """What the loop has to do now is none of the next test's business."""
    _before.clear()
    _before.update(background_tasks())


def wait_until(is_true: Callable[[], bool]) -> None:
    """Returns when it is; fails when it never becomes so."""
    end_s = time.monotonic() + SOON_S
    pause = threading.Event()
    while not is_true():
        assert time.monotonic() < end_s, "it never happened"
        pause.wait(0.001)


def is_settled(engine: Engine) -> bool:
    """No connection of an `openai` engine waits for the end of a response."""
    clients = getattr(engine._client, "_clients", None)  # type: ignore[attr-defined]
    scopes = [] if clients is None else clients._scopes._values.values()
    opened = [scope.opened for scope in scopes if scope.opened is not None]
    return not background_tasks() and not any(client.draining for client in opened)


def nothing_runs(engine: Engine) -> bool:
    return not engine._runs and not background_tasks()
