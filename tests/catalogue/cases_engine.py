"""One provocation for each code of the engines."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from torvyn.engine import ChoiceStep, Engine, Generation, Scripted, Step, open
from torvyn.engine.request import Request
from torvyn.reactor.loops import background_loop


class Says(Engine):
    """Makes one step, of whatever it is given; an exception is raised."""

    def __init__(self, thing: object) -> None:
        super().__init__()
        self._thing = thing

    async def steps(self, request: Request) -> AsyncIterator[Step]:
        if isinstance(self._thing, Exception):
            raise self._thing
        yield Step((self._thing,))  # type: ignore[arg-type]


def _request_invalid(_folder: Path) -> None:
    Request.make("hello", temperature=-1)


def _already_read(_folder: Path) -> None:
    generation = Scripted().generate("hello")
    list(generation)
    list(generation)


def _closed(_folder: Path) -> None:
    engine = Scripted()
    engine.close()
    engine.complete("hello")


def _request_running(_folder: Path) -> None:
    engine = Scripted(delay_s=60)
    first = iter(engine.generate("hello", request_id="one"))
    next(first)
    engine.complete("hello", request_id="one")


def _would_block(_folder: Path) -> None:
    async def read(generation: Generation) -> None:
        list(generation)

    asyncio.run_coroutine_threadsafe(read(Scripted().generate("x")), background_loop()).result(5)


CASES: dict[str, Callable[[Path], object]] = {
    "engine.already-read": _already_read,
    "engine.bad-option": lambda _: open("scripted", sript="a"),
    "engine.closed": _closed,
    "engine.failed": lambda _: Says(KeyError("x")).complete("hello"),
    "engine.request-invalid": _request_invalid,
    "engine.request-running": _request_running,
    "engine.scripted-failure": lambda _: Scripted(fail_at=0).complete("hello"),
    "engine.step-invalid": lambda _: Says(ChoiceStep(7)).complete("hello"),
    "engine.unknown": lambda _: open("scriptd"),
    "engine.would-block": _would_block,
}
