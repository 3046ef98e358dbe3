"""What holds when a reader leaves an answer, or an upstream breaks off?"""

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
from benches.reliability.line import LeftOut, Line, Measured
from benches.reliability.setting import TESTS
from torvyn.components.builtin.filter_blocklist import Blocklist
from torvyn.engine import ChoiceStep, Engine, Request, Scripted, Step

GAP_S, LEAVES, WORD = 0.0005, 60, "forbidden"
BATCH = 16


class Talker(Engine):
    """Says a word every half millisecond and tells when it was left."""

    name = "talker"

    def __init__(self) -> None:
        super().__init__()
        self.made = 0
        self.begun, self.left = threading.Event(), threading.Event()
        self.left_s = 0.0

    async def steps(self, request: Request) -> AsyncIterator[Step]:
        self.begun.set()
        try:
            await asyncio.sleep(GAP_S)
            while True:
                self.made += 1
                yield Step((ChoiceStep(text="word "),))
                await asyncio.sleep(GAP_S)
        finally:
            self.left_s = time.perf_counter()
            self.left.set()


def guarded() -> torvyn.Flow:
    return torvyn.Flow(Blocklist({"words": [WORD], "mode": "stream", "action": "block"}))


def leave_delays(count: int, seed: int = 7) -> tuple[list[float], list[int]]:
    """Seconds until the engine had ended, and tokens it made meanwhile."""
    chance = random.Random(seed)
    ways = [_leave_for, _leave_async]
    found = [
        ways[number % 2](chance.choice([0, 0, 1, 2, 10, 40]), number % 4 < 2)
        for number in range(count)
    ]
    return [delay_s for delay_s, _ in found], [made for _, made in found]


def _options(is_guarded: bool) -> dict[str, Any]:
    return {"through": guarded} if is_guarded else {}


def _leave_for(after: int, is_guarded: bool) -> tuple[float, int]:
    engine = Talker()
    generation = engine.generate("x", **_options(is_guarded))
    if after == 0:  # somebody else ends it before the first token
        reader = threading.Thread(target=list, args=(generation,))
        reader.start()
        engine.begun.wait()
        began_s, made = time.perf_counter(), engine.made
        generation.close()
        reader.join()
    else:
        deltas = iter(generation)
        for _ in range(after):
            next(deltas)
        began_s, made = time.perf_counter(), engine.made
        deltas.close()
    engine.left.wait()
    return engine.left_s - began_s, engine.made - made


def _leave_async(after: int, is_guarded: bool) -> tuple[float, int]:
    engine = Talker()

    async def leave() -> tuple[float, int]:
        reader = aiter(engine.generate("x", **_options(is_guarded)))
        if after == 0:
            task = asyncio.ensure_future(anext(reader))
            await asyncio.sleep(0)
            began_s, made = time.perf_counter(), engine.made
            task.cancel()
            await asyncio.wait({task})
        else:
            for _ in range(after):
                await anext(reader)
            began_s, made = time.perf_counter(), engine.made
            await reader.aclose()
        return began_s, made

    began_s, made = asyncio.run(leave())
    engine.left.wait()
    return engine.left_s - began_s, engine.made - made


def left_ms(rounds: int) -> Measured:
    samples = [percentile(leave_delays(LEAVES, at)[0], 0.99) * 1e3 for at in range(rounds)]
    return Measured(max(samples), samples, f"p99 of {LEAVES} leaves a round")


def made_after(rounds: int) -> Measured:
    samples = [float(max(leave_delays(LEAVES, at)[1])) for at in range(rounds)]
    return Measured(max(samples), samples, f"{rounds * LEAVES} leaves")


def truncations(rounds: int) -> Measured:
    """Answers that ended without an error although the upstream had not said all of them."""
    if importlib.util.find_spec("aiohttp") is None:
        raise LeftOut("aiohttp is not installed")
    fake = _fake_upstream()
    whole = b"".join([fake.delta("Grüße "), fake.delta("你好"), fake.delta(finish="stop")])
    last = whole.rindex(b"data:")
    silent, tried = 0, 0
    for number in range(rounds):
        # Every place before the chunk that says how it ended, some of them in a round.
        for at in range(number, last, max(1, rounds * 3)):
            silent += _is_silent(fake, whole[:at])
            tried += 1
        for ending in (b"data: \xff\xfe{garbage\n\n", fake.DONE, b"error: gone\n\n"):
            silent += _is_silent(fake, whole[:last] + ending)
            tried += 1
        # One of two answers that were asked for.
        silent += _is_silent(fake, whole + fake.DONE, choices=2)
        tried += 1
    return Measured(float(silent), detail=f"{tried} answers cut or garbled")


def _is_silent(fake: ModuleType, data: bytes, choices: int = 1) -> bool:
    from torvyn.engine.openai.engine import OpenAI

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


def leaks(rounds: int) -> Measured:
    """Characters of a blocked word that came out, however tokens and steps cut it."""
    chance, out, tried = random.Random(3), 0, 0
    for cut in [*range(1, len(WORD)), *[0] * rounds * 20]:
        text = f"It is {WORD} to say."
        places = sorted({6 + cut} if cut else set(chance.sample(range(1, len(text)), 6)))
        tokens = [text[a:b] for a, b in zip([0, *places], [*places, len(text)], strict=True)]
        engine = Scripted(tokens, step_tokens=chance.choice([1, 2, 5]))
        said = "".join(delta.text for delta in engine.generate("x", through=guarded))
        out += len(said.removeprefix("It is "))
        tried += 1
    return Measured(float(out), detail=f"{tried} ways to cut it")


def _fake_upstream() -> ModuleType:
    file = TESTS / "engine" / "fake_upstream.py"
    spec = importlib.util.spec_from_file_location("fake_upstream", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


RANDOM = "at a random token or before the first, `for` and `async for`, bare and guarded"
LINES = (
    Line("reader-leaves", "a reader leaves its answer", RANDOM, 100, "ms to the engine", left_ms),
    Line("reader-leaves-late", "a reader leaves its answer", RANDOM, BATCH, "tokens", made_after),
    Line(
        "upstream-breaks-off",
        "an upstream cuts its answer, sends garbage, no finish reason, or too few answers",
        "at every byte, code points included",
        0,
        "silent truncations",
        truncations,
    ),
    Line("blocked-word-split", "a blocked word split over tokens", "every way", 0, "leaked", leaks),
)
