"""No answer takes the loop for itself: engines that never wait go on by turns."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager

import pytest
from live_server import Served, served, wait_for

import torvyn
from torvyn.components import Blocklist
from torvyn.engine import ChoiceStep, Engine, Generation, Request, Service, Step

GUARDS = {"unguarded": None, "guarded": lambda: torvyn.Flow(Blocklist(["secret"]))}


class Eager(Engine):
    """Has its next token at once, always; notes who took one in which turn of the loop."""

    name = "eager"

    def __init__(self, tokens: int = 1_000_000) -> None:
        super().__init__()
        self.tokens = tokens
        self.turns: dict[int, Counter[str]] = defaultdict(Counter)
        self.given: Counter[str] = Counter()
        self._turn = 0
        self._is_counting = False

    def _count(self) -> None:
        self._turn += 1
        if self._is_counting:
            asyncio.get_running_loop().call_soon(self._count)

    def start(self) -> None:
        """Begins to count the turns of the loop, in one of them."""
        self._is_counting = True
        self._count()

    def stop(self) -> None:
        self._is_counting = False

    async def steps(self, request: Request) -> AsyncIterator[Step]:
        for _ in range(self.tokens):
            self.given[request.id] += 1
            if self._is_counting:
                self.turns[self._turn][request.id] += 1
            yield Step((ChoiceStep(text="word "),))


class Reader(threading.Thread):
    """Reads all that comes on some sockets."""

    def __init__(self, sockets: list[socket.socket]) -> None:
        super().__init__(daemon=True)
        self._sockets = sockets
        self._is_over = False

    def run(self) -> None:
        for sock in self._sockets:
            sock.setblocking(False)
        while not self._is_over:
            for sock in self._sockets:
                try:
                    sock.recv(1 << 16)
                except BlockingIOError:
                    time.sleep(0.0001)

    def end(self) -> None:
        self._is_over = True
        self.join()


@contextmanager
def asking(server: Served, count: int, **options: int) -> Iterator[list[socket.socket]]:
    body = b'{"prompt": "Hi", "max_tokens": 1000000}'
    with ExitStack() as stack:
        yield [stack.enter_context(server.ask(body, **options)) for _ in range(count)]


def service(engine: Engine, guard: str) -> dict[str, Service]:
    return {"chat": Service("chat", engine, make_flow=GUARDS[guard])}


@pytest.mark.parametrize("guard", GUARDS)
@pytest.mark.parametrize("count", [2, 20])
def test_one_answer_goes_on_per_turn_of_the_loop(guard: str, count: int) -> None:
    engine = Eager()
    with served(service(engine, guard)) as server, asking(server, count) as sockets:
        reader = Reader(sockets)
        reader.start()
        wait_for(lambda: len(engine.given) == count)
        server.loop.call_soon_threadsafe(engine.start)
        before = dict(engine.given)
        # None waits for ever.
        wait_for(lambda: all(engine.given[id] > before[id] for id in before))
        wait_for(lambda: len(engine.turns) >= 200)
        server.loop.call_soon_threadsafe(engine.stop)
        reader.end()

    assert max(map(len, engine.turns.values())) == 1


def test_answers_begin_one_per_turn_of_the_loop() -> None:
    engine = Eager(tokens=20)
    with served(service(engine, "guarded")) as server:
        server.loop.call_soon_threadsafe(engine.start)
        with asking(server, 100):
            wait_for(lambda: len(engine.given) == 100)
        server.loop.call_soon_threadsafe(engine.stop)

    # One that begins, and one that goes on.
    assert max(map(len, engine.turns.values())) <= 2


@pytest.mark.parametrize("guard", GUARDS)
def test_answers_that_nobody_reads_cost_nothing(guard: str) -> None:
    count, wait_s = 150, 0.4
    engine = Eager()
    with (
        served(service(engine, guard), max_streams=count) as server,
        asking(server, count, receive_bytes=4096),
    ):
        wait_for(lambda: len(engine.given) == count and _is_parked(engine))
        clock = time.pthread_getcpuclockid(server.thread_id)
        began_s, given = time.clock_gettime(clock), engine.given.total()
        time.sleep(wait_s)
        spent_s = time.clock_gettime(clock) - began_s

    assert engine.given.total() == given
    assert spent_s < 0.05 * wait_s


def _is_parked(engine: Eager) -> bool:
    before = engine.given.total()
    time.sleep(0.1)
    return engine.given.total() == before


async def read(generation: Generation) -> None:
    async for _ in generation:
        pass


async def read_together(engine: Eager, answers: list[Generation], turns: int) -> None:
    """Reads them until the loop has run so often."""
    readers = [asyncio.create_task(read(answer)) for answer in answers]
    while len(engine.given) < len(answers):
        await asyncio.sleep(0)
    engine.start()
    while len(engine.turns) < turns:
        await asyncio.sleep(0)
    engine.stop()
    for task in readers:
        task.cancel()
    await asyncio.gather(*readers, return_exceptions=True)


@pytest.mark.parametrize("guard", GUARDS)
def test_answers_that_a_program_reads_go_on_by_turns(guard: str) -> None:
    engine = Eager()
    chat = service(engine, guard)["chat"]

    asyncio.run(read_together(engine, [chat.generate("Hi") for _ in range(10)], turns=200))

    assert max(map(len, engine.turns.values())) == 1
    assert len(sum(engine.turns.values(), Counter())) == 10


def test_an_answer_of_higher_priority_has_its_share() -> None:
    engine = Eager()
    chat = service(engine, "unguarded")["chat"]
    critical, normal = (chat.generate("Hi", priority=each) for each in ("critical", "normal"))

    asyncio.run(read_together(engine, [critical, normal], turns=500))

    taken = Counter(next(iter(turn)) for turn in engine.turns.values())
    assert taken[critical.request.id] == pytest.approx(4 * taken[normal.request.id], rel=0.05)
