"""An abort ends a request as `cancelled`, from any thread and at any time."""

from __future__ import annotations

import asyncio
import threading

import pytest
from observed_engines import SOON_S, Endless, Silent, nothing_runs, wait_until

from torvyn.engine import Scripted


async def read(generation):
    return [delta async for delta in generation]


@pytest.mark.promise("responses.abort")
def test_an_abort_from_another_thread_ends_an_async_reader_as_cancelled():
    engine = Silent()

    async def aborted():
        task = asyncio.create_task(read(engine.generate("x", request_id="mine")))
        await asyncio.to_thread(engine.begun.wait, SOON_S)
        assert await asyncio.to_thread(engine.abort, "mine")
        deltas = await asyncio.wait_for(task, SOON_S)
        return deltas, task.cancelling()

    (finish, usage), cancelling = asyncio.run(aborted())
    assert (finish.finish_reason, cancelling) == ("cancelled", 0)
    assert usage.usage is not None


@pytest.mark.promise("responses.abort")
def test_an_abort_from_another_thread_ends_a_sync_reader_as_cancelled():
    engine = Silent()
    threading.Thread(
        target=lambda: engine.begun.wait(SOON_S) and engine.abort("mine"), daemon=True
    ).start()

    deltas = list(engine.generate("x", request_id="mine"))

    assert [delta.finish_reason for delta in deltas] == ["cancelled", None]
    wait_until(lambda: nothing_runs(engine))


@pytest.mark.promise("responses.abort")
def test_an_abort_while_the_reader_is_busy_reaches_the_engine_at_once():
    engine = Endless()

    async def busy():
        reader = aiter(engine.generate("x", request_id="mine"))
        await anext(reader)
        engine.abort("mine")
        await asyncio.wait_for(asyncio.to_thread(engine.left.wait), SOON_S)
        return [delta.finish_reason async for delta in reader]

    assert asyncio.run(busy()) == ["cancelled", None]


@pytest.mark.promise("responses.abort")
def test_the_usage_of_an_aborted_answer_is_what_was_made():
    engine = Endless()
    generation = engine.generate("x", request_id="mine")
    deltas = iter(generation)
    next(deltas)

    assert engine.abort("mine")
    assert list(deltas)[-1].usage.completion_tokens == engine.made
    assert generation.finish_reasons == ("cancelled",)


def test_an_abort_before_the_first_delta_counts():
    engine = Endless()
    generation = engine.generate("x", request_id="mine")

    assert engine.abort("mine")
    assert [delta.finish_reason for delta in generation] == ["cancelled", None]
    assert engine.made == 0


def test_aborting_what_does_not_run_says_so():
    engine = Scripted()
    engine.complete("x", request_id="done")

    assert not engine.abort("done")


@pytest.mark.parametrize("way", ["generation", "engine"])
def test_closing_ends_the_stream(way):
    engine = Endless()
    generation = engine.generate("x")
    deltas = iter(generation)
    next(deltas)
    (generation if way == "generation" else engine).close()

    assert [delta.finish_reason for delta in deltas][-2:] == ["cancelled", None]
    assert engine.left.is_set()


def test_a_generation_that_was_closed_before_it_began_asks_nothing_of_the_engine():
    engine = Endless()
    with engine.generate("x") as generation:
        generation.close()

        assert [delta.finish_reason for delta in generation] == ["cancelled", None]
    assert engine.made == 0


def test_stopping_lets_go_what_was_held_and_ends_well():
    engine = Endless()
    generation = engine.generate("x", stop=["never said"])
    deltas = iter(generation)
    next(deltas)
    generation.stop()

    assert [delta.finish_reason for delta in deltas][-2:] == ["stop", None]
    assert engine.left.is_set()


def test_the_first_way_to_end_it_holds():
    engine = Endless()
    generation = engine.generate("x")
    generation.stop()
    generation.close()

    assert [delta.finish_reason for delta in generation] == ["stop", None]
    assert engine.made == 0
