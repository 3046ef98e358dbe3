"""A generation is read once, by `for` or `async for`, and ends at once when nobody reads it."""

from __future__ import annotations

import asyncio
import gc
import json
import threading
from contextlib import suppress

import pytest
from observed_engines import SOON_S, Endless, Silent, background_tasks, nothing_runs, wait_until

from torvyn._io.background_loop import AHEAD, background_loop
from torvyn.engine import ChoiceStep, Engine, Scripted, Step
from torvyn.errors import Internal, InvalidInput, Unavailable

"""Ten times the 100 ms within which an engine hears of it."""


async def read(generation):
    return [delta async for delta in generation]


@pytest.mark.promise("responses.async-generator", "responses.sync-iterator")
def test_for_and_async_for_give_the_same_deltas():
    engine = Scripted("One two three. Four!", token_bytes=2)

    assert list(engine.generate("x", n=2)) == asyncio.run(read(engine.generate("x", n=2)))


@pytest.mark.promise("responses.async-generator")
def test_two_async_generations_are_read_by_turns():
    async def both():
        one, other = (aiter(Scripted(script).generate("x")) for script in ("a b", "c d"))
        return [(await anext(each)).text for each in (one, other, one, other)]

    assert asyncio.run(both()) == ["a", "c", " b", " d"]


@pytest.mark.promise("responses.final-usage")
def test_usage_comes_with_the_last_delta_alone():
    *others, last = Scripted("a b").generate("one two three", n=2)

    assert [delta.request_final_usage_json_str for delta in others] == [None] * len(others)
    usage = json.loads(last.request_final_usage_json_str)
    assert (usage["prompt_tokens"], usage["completion_tokens"]) == (3, 4)


@pytest.mark.promise("responses.finish-reasons", "responses.whole-answer")
@pytest.mark.parametrize("options", [{}, {"stop": "three"}, {"max_tokens": 2}, {"n": 3, "seed": 7}])
def test_the_whole_is_the_sum_of_the_stream(options):
    engine = Scripted(answers=["One two three four.", "Five six."])

    whole = engine.complete("x", **options)

    for choice in whole.choices:
        own = [delta for delta in engine.generate("x", **options) if delta.index == choice.index]
        assert choice.text == "".join(delta.text for delta in own)
        reasons = [delta.finish_reason for delta in own if delta.finish_reason]
        assert reasons == [choice.finish_reason]


@pytest.mark.promise("responses.whole-answer")
def test_acomplete_is_complete():
    engine = Scripted()

    one, other = engine.complete("x"), asyncio.run(engine.acomplete("x"))

    assert (one.choices, one.usage) == (other.choices, other.usage)


@pytest.mark.promise("responses.sync-iterator")
def test_a_for_loop_works_inside_a_running_event_loop():
    async def notebook():
        return [delta.text for delta in Scripted("a b").generate("x")]

    assert "".join(asyncio.run(notebook())) == "a b"


@pytest.mark.promise("responses.early-exit", "responses.sync-iterator")
def test_leaving_a_for_loop_stops_the_engine():
    engine = Endless()
    for _ in engine.generate("x"):
        break

    assert engine.left.wait(SOON_S)
    wait_until(lambda: nothing_runs(engine))


@pytest.mark.promise("responses.early-exit")
def test_leaving_a_for_loop_by_an_exception_stops_the_engine_though_the_generation_is_kept():
    engine = Endless()
    generation = engine.generate("x")
    with suppress(ZeroDivisionError):
        for _ in generation:
            raise ZeroDivisionError

    assert engine.left.wait(SOON_S)
    wait_until(lambda: nothing_runs(engine))
    assert generation.finish_reasons == ("cancelled",)
    assert generation.usage.completion_tokens == engine.made


@pytest.mark.promise("responses.async-generator", "responses.early-exit")
def test_leaving_an_async_for_loop_stops_the_engine():
    engine = Endless()

    async def leave():
        generation = engine.generate("x")
        async for _ in generation:
            break
        await asyncio.wait_for(asyncio.to_thread(engine.left.wait), SOON_S)
        others = asyncio.all_tasks() - {asyncio.current_task()}
        return others, generation.finish_reasons

    others, finish = asyncio.run(leave())
    assert not others
    assert finish == ("cancelled",)
    assert not engine._runs


def test_cancelling_the_reader_stops_the_engine_and_stays_a_cancellation():
    engine = Silent()

    async def cancel():
        task = asyncio.create_task(read(engine.generate("x")))
        await asyncio.to_thread(engine.begun.wait, SOON_S)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return asyncio.all_tasks() - {asyncio.current_task()}

    assert not asyncio.run(cancel())
    assert engine.left.is_set()
    assert not engine._runs


def test_a_time_limit_of_the_reader_is_the_readers():
    engine = Silent()

    async def limited():
        async with asyncio.timeout(0.01):
            await read(engine.generate("x"))

    with pytest.raises(TimeoutError):
        asyncio.run(limited())
    assert engine.left.is_set()


def test_letting_go_of_a_generation_stops_the_engine():
    engine = Endless()
    deltas = iter(engine.generate("x"))
    next(deltas)
    del deltas
    gc.collect()

    assert engine.left.wait(SOON_S)
    wait_until(lambda: nothing_runs(engine))


@pytest.mark.promise("responses.abort-fast-engine")
@pytest.mark.parametrize("read", [1, 2, 3, 5, 30, 300])
def test_a_fast_engine_is_ahead_of_a_for_loop_by_what_it_has_read_and_at_most_64_bytes(read):
    engine = Endless(gap_s=0)
    deltas = iter(engine.generate("x"))
    taken = sum(len(next(deltas).text.encode()) for _ in range(read))
    background_tasks()  # The loop has been round: it had time to make more.

    # What was read, what waits, and the one that went over the limit.
    assert engine.made * len("word ") <= taken + min(taken, AHEAD) + len("word ")
    del deltas
    assert engine.left.wait(SOON_S)


@pytest.mark.promise("responses.abort-fast-engine")
@pytest.mark.parametrize("read", [1, 2, 7, 50])
def test_an_abort_in_the_loop_reaches_a_fast_engine(read):
    engine = Scripted(["word "] * 200)
    generation = engine.generate("x", request_id="mine")
    seen = 0
    for delta in generation:
        seen += bool(delta.text)
        if seen == read:
            assert engine.abort("mine")
            break

    assert engine.aborted == ["mine"]
    assert generation.finish_reasons == ("cancelled",)
    assert read <= generation.usage.completion_tokens <= read + 1 + AHEAD // len("word ")


@pytest.mark.promise("responses.abort-fast-engine")
@pytest.mark.parametrize("read", [1, 2, 7, 50])
@pytest.mark.parametrize("gap_s", [None, 0])
def test_the_usage_is_final_when_the_loop_was_left(read, gap_s):
    engine = Counting(gap_s)
    generation = engine.generate("x")
    for number, _ in enumerate(generation, 1):
        if number == read:
            break

    assert engine.left.is_set()
    assert generation.finish_reasons == ("cancelled",)
    assert generation.usage.completion_tokens == engine.made
    assert read <= engine.made <= read + 1 + AHEAD // len("word ")


class Counting(Endless):
    """Without a gap it never waits."""

    async def steps(self, request):
        try:
            while True:
                self.made += 1
                yield Step((ChoiceStep(text="word "),))
                if self._gap_s is not None:
                    await asyncio.sleep(self._gap_s)
        finally:
            self.left.set()


@pytest.mark.promise("responses.abort-fast-engine")
def test_the_whole_text_of_a_fast_engine_reaches_a_for_loop():
    for text in ("", "a", "é漢👩" * 50, "word " * 1000, "x" * 5000):
        for step_tokens in (1, 16):
            engine = Scripted(text, step_tokens=step_tokens, token_bytes=7)
            assert "".join(delta.text for delta in engine.generate("x")) == text


def test_an_engine_that_never_waits_lets_others_run():
    seen = []

    async def both():
        asyncio.get_running_loop().call_soon(seen.append, "other")
        async for _ in Scripted(["a"] * 2000).generate("x"):
            if seen:
                return

    asyncio.run(both())
    assert seen


class Failing(Engine):
    name = "failing"

    def __init__(self, error):
        super().__init__()
        self.error = error

    async def steps(self, request):
        yield Step((ChoiceStep(text="so far"),))
        raise self.error


@pytest.mark.promise("responses.engine-failure")
def test_a_failure_comes_after_the_text_and_a_finish():
    seen = []
    with pytest.raises(Unavailable, match="gone"):
        for delta in Failing(Unavailable("gone")).generate("x", stop="far away"):
            seen.append((delta.text, delta.finish_reason, delta.usage is not None))

    assert seen == [("so ", None, False), ("far", "error", False), ("", None, True)]


def test_an_untyped_failure_of_an_engine_is_internal_and_keeps_its_cause():
    with pytest.raises(Internal) as caught:
        Failing(KeyError("x")).complete("x")

    assert caught.value.code == "engine.failed"
    assert isinstance(caught.value.__cause__, KeyError)


@pytest.mark.promise("responses.request-errors")
def test_a_generation_is_read_once():
    generation = Scripted().generate("x")
    list(generation)

    with pytest.raises(InvalidInput, match="was read before"):
        iter(generation)


def test_two_requests_cannot_have_one_id():
    engine = Endless()
    first = iter(engine.generate("x", request_id="same"))
    next(first)

    with pytest.raises(InvalidInput) as caught:
        engine.complete("x", request_id="same")
    assert caught.value.code == "engine.request-running"


def test_a_closed_engine_takes_no_more():
    with Scripted() as engine:
        engine.complete("x")

    with pytest.raises(Unavailable, match="closed"):
        engine.complete("x")


def test_a_for_loop_on_the_background_loop_is_refused_in_place_of_waiting_for_ever():
    async def blocked():
        return list(Scripted().generate("x"))

    with pytest.raises(InvalidInput) as caught:
        asyncio.run_coroutine_threadsafe(blocked(), background_loop()).result(SOON_S)
    assert caught.value.code == "engine.would-block"


def test_a_hundred_generations_leave_no_thread_and_no_task():
    engine = Scripted("a b c")
    engine.complete("x")
    before = threading.active_count()
    for _ in range(100):
        for _ in engine.generate("x"):
            break

    wait_until(lambda: nothing_runs(engine))
    assert threading.active_count() == before
