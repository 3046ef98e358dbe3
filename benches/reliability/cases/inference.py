"""Which guarantees hold when a reader stops reading, or an upstream cuts its answer?"""

from __future__ import annotations

import asyncio
import importlib.util
import random
import threading
import time
from collections.abc import AsyncIterator
from types import ModuleType
from typing import Any

import torvyn
from benches.harness import percentile
from benches.reliability.case import Case, Measurement, SkipCase
from benches.reliability.guests import load_test_module
from torvyn.components import Blocklist
from torvyn.engine import ChoiceStep, Engine, Request, Scripted, Step

GAP_S, LEAVES, WORD = 0.0005, 60, "forbidden"
BATCH = 16


class Talker(Engine):
    """Sends a word every half millisecond and records when its stream was closed."""

    name = "talker"

    def __init__(self) -> None:
        super().__init__()
        self.produced = 0
        self.started, self.closed = threading.Event(), threading.Event()
        self.closed_s = 0.0

    async def steps(self, request: Request) -> AsyncIterator[Step]:
        self.started.set()
        try:
            await asyncio.sleep(GAP_S)
            while True:
                self.produced += 1
                yield Step((ChoiceStep(text="word "),))
                await asyncio.sleep(GAP_S)
        finally:
            self.closed_s = time.perf_counter()
            self.closed.set()


def guard_flow() -> torvyn.Flow:
    return torvyn.Flow(Blocklist({"words": [WORD], "mode": "stream", "action": "block"}))


def leave_delays(count: int, seed: int = 7) -> tuple[list[float], list[int]]:
    """Seconds until the engine stopped, and the tokens that it produced meanwhile."""
    chance = random.Random(seed)
    ways = [_leave_for, _leave_async]
    results = [
        ways[number % 2](chance.choice([0, 0, 1, 2, 10, 40]), number % 4 < 2)
        for number in range(count)
    ]
    return [delay_s for delay_s, _ in results], [produced for _, produced in results]


def _options(is_guarded: bool) -> dict[str, Any]:
    return {"through": guard_flow} if is_guarded else {}


def _leave_for(after: int, is_guarded: bool) -> tuple[float, int]:
    engine = Talker()
    generation = engine.generate("x", **_options(is_guarded))
    if after == 0:  # another thread closes it before the first token
        reader = threading.Thread(target=list, args=(generation,))
        reader.start()
        engine.started.wait()
        began_s, produced = time.perf_counter(), engine.produced
        generation.close()
        reader.join()
    else:
        deltas = iter(generation)
        for _ in range(after):
            next(deltas)
        began_s, produced = time.perf_counter(), engine.produced
        deltas.close()
    engine.closed.wait()
    return engine.closed_s - began_s, engine.produced - produced


def _leave_async(after: int, is_guarded: bool) -> tuple[float, int]:
    engine = Talker()

    async def leave() -> tuple[float, int]:
        reader = aiter(engine.generate("x", **_options(is_guarded)))
        if after == 0:
            task = asyncio.ensure_future(anext(reader))
            await asyncio.sleep(0)
            began_s, produced = time.perf_counter(), engine.produced
            task.cancel()
            await asyncio.wait({task})
        else:
            for _ in range(after):
                await anext(reader)
            began_s, produced = time.perf_counter(), engine.produced
            await reader.aclose()
        return began_s, produced

    began_s, produced = asyncio.run(leave())
    engine.closed.wait()
    return engine.closed_s - began_s, engine.produced - produced


def stop_ms(rounds: int) -> Measurement:
    samples = [percentile(leave_delays(LEAVES, at)[0], 0.99) * 1e3 for at in range(rounds)]
    return Measurement(max(samples), samples, f"p99 of {LEAVES} readers per round")


def produced_after(rounds: int) -> Measurement:
    samples = [float(max(leave_delays(LEAVES, at)[1])) for at in range(rounds)]
    return Measurement(max(samples), samples, f"{rounds * LEAVES} readers")


def truncations(rounds: int) -> Measurement:
    """Truncated answers that ended without an error."""
    if importlib.util.find_spec("aiohttp") is None:
        raise SkipCase("aiohttp is not installed")
    fake = load_test_module("fake_upstream.py")
    whole = b"".join([fake.delta("Grüße "), fake.delta("你好"), fake.delta(finish="stop")])
    last = whole.rindex(b"data:")
    silent, tried = 0, 0
    for number in range(rounds):
        # Every place before the chunk with the finish reason, some of them per round.
        for at in range(number, last, max(1, rounds * 3)):
            silent += _is_silent(fake, whole[:at])
            tried += 1
        for ending in (b"data: \xff\xfe{garbage\n\n", fake.DONE, b"error: gone\n\n"):
            silent += _is_silent(fake, whole[:last] + ending)
            tried += 1
        # One of two requested choices.
        silent += _is_silent(fake, whole + fake.DONE, choices=2)
        tried += 1
    return Measurement(float(silent), detail=f"{tried} answers cut or garbled")


def _is_silent(fake: ModuleType, data: bytes, choices: int = 1) -> bool:
    from torvyn.engine import OpenAI

    async def reply(exchange: Any) -> None:
        await exchange.begin()
        if data:
            await exchange.chunk(data)
        exchange.writer.close()

    with fake.running(reply) as up, OpenAI(base_url=up.url, model="m", retries=0) as engine:
        try:
            engine.complete("x", n=choices)
        except torvyn.TorvynError:
            return False
    return True


def leaks(rounds: int) -> Measurement:
    """Characters of a blocked word that leaked, however tokens and steps split it."""
    chance, out, tried = random.Random(3), 0, 0
    for cut in [*range(1, len(WORD)), *[0] * rounds * 20]:
        text = f"It is {WORD} to say."
        places = sorted({6 + cut} if cut else set(chance.sample(range(1, len(text)), 6)))
        tokens = [text[a:b] for a, b in zip([0, *places], [*places, len(text)], strict=True)]
        engine = Scripted(tokens, step_tokens=chance.choice([1, 2, 5]))
        output = "".join(delta.text for delta in engine.generate("x", through=guard_flow))
        out += len(output.removeprefix("It is "))
        tried += 1
    return Measurement(float(out), detail=f"{tried} ways to split it")


RANDOM = "at a random token or before the first, `for` and `async for`, with and without guards"
CASES = (
    Case("reader-leaves", "a reader stops reading", RANDOM, 100, "ms to the engine", stop_ms),
    Case("reader-leaves-late", "a reader stops reading", RANDOM, BATCH, "tokens", produced_after),
    Case(
        "upstream-breaks-off",
        "an upstream cuts its answer, or sends garbage, no finish reason or too few choices",
        "at every byte, also inside characters",
        0,
        "silent truncations",
        truncations,
    ),
    Case(
        "blocked-word-split",
        "a blocked word split over tokens",
        "at every place",
        0,
        "characters leaked",
        leaks,
    ),
)
