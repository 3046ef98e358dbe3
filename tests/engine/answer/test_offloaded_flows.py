"""Flows with stages elsewhere: bounded, and over in every phase when somebody leaves."""

from __future__ import annotations

import asyncio
import threading

import pytest
from flow_components import AsyncUpper, Stuck, ThreadUpper, upper_flow
from observed_engines import SOON_S, Endless, Silent, nothing_runs, wait_until

import torvyn
from torvyn.engine import ChoiceStep, Engine, Scripted, Step


class Quick(Engine):
    """Says a great deal without waiting, and counts."""

    name = "quick"
    made = 0

    async def steps(self, request):
        while self.made < 20_000:
            self.made += 1
            yield Step((ChoiceStep(text="word "),))


def stage_threads():
    return [thread for thread in threading.enumerate() if thread.name == "torvyn-ThreadUpper"]


def test_a_flow_that_is_behind_stops_the_engine():
    engine = Quick()
    Stuck.begun.clear()

    async def stuck():
        flow = torvyn.Flow
        reader = aiter(engine.generate("x", through=lambda: flow(Stuck(), queue_depth=8)))
        task = asyncio.ensure_future(anext(reader))
        await asyncio.to_thread(Stuck.begun.wait, SOON_S)
        before = -1
        while before != engine.made:  # until it stands still
            before = engine.made
            await asyncio.to_thread(threading.Event().wait, 0.05)
        task.cancel()
        await asyncio.wait({task})
        await reader.aclose()

    asyncio.run(stuck())
    # Two batches of deltas, the queue, and what the stage has in its hand.
    assert engine.made < 300


@pytest.mark.parametrize("where", ["async", "thread"])
def test_a_slow_reader_gets_all_of_it_in_order(where):
    words = [f"w{number}. " for number in range(700)]

    async def slow():
        got = ""
        async for delta in Scripted(words).generate("x", through=upper_flow(where, queue_depth=4)):
            got += delta.text
            await asyncio.sleep(0)
        return got

    assert asyncio.run(slow()) == "".join(words).upper()


class HeldUntilTheEnd(torvyn.Aggregator):
    """Makes nothing of its own until the stream ends, and then never ends."""

    reached = threading.Event()

    async def ingest(self, element):
        return None

    async def flush(self):
        self.reached.set()
        await asyncio.Event().wait()
        return []


async def _phase(engine, make, wait, leave):
    """Reads on a task, waits for the phase, leaves in some way, and tells how it ended."""
    generation = engine.generate("x", request_id="r", through=make)
    task = asyncio.ensure_future(_reasons(generation))
    await asyncio.to_thread(wait)
    leave(engine, generation, task)
    done, _ = await asyncio.wait({task}, timeout=SOON_S)
    assert done, "it did not end"
    return "left" if task.cancelled() else task.result()


async def _reasons(generation):
    return [delta.finish_reason async for delta in generation if delta.finish_reason]


LEAVES = {
    "abort": (lambda engine, generation, task: engine.abort("r"), ["cancelled"]),
    "close": (lambda engine, generation, task: generation.close(), ["cancelled"]),
    "cancel": (lambda engine, generation, task: task.cancel(), "left"),
}


def _before(engine):
    return lambda: engine.begun.wait(SOON_S)


PHASES = {
    "before the first token": (Silent, lambda: torvyn.Flow(AsyncUpper()), _before),
    "while a stage works": (
        Endless,
        lambda: torvyn.Flow(Stuck()),
        lambda _: lambda: Stuck.begun.wait(SOON_S),
    ),
    "while a thread works": (
        Endless,
        lambda: torvyn.Flow(ThreadUpper()),
        lambda engine: lambda: wait_until(lambda: engine.made > 3),
    ),
    "after the engine has ended": (
        Scripted,
        lambda: torvyn.Flow(HeldUntilTheEnd()),
        lambda _: lambda: HeldUntilTheEnd.reached.wait(SOON_S),
    ),
}


@pytest.mark.parametrize("way", LEAVES)
@pytest.mark.parametrize("phase", PHASES)
def test_an_end_in_any_phase_leaves_nothing_running(phase, way):
    make_engine, make, waits = PHASES[phase]
    leave, outcome = LEAVES[way]
    Stuck.begun.clear()
    HeldUntilTheEnd.reached.clear()
    engine = make_engine()

    assert asyncio.run(_phase(engine, make, waits(engine), leave)) == outcome
    wait_until(lambda: nothing_runs(engine))
    wait_until(lambda: not stage_threads())
