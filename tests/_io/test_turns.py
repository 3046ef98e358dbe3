"""Turns on a loop: one task goes on at a time, by weight, and whoever waits elsewhere is ahead."""

from __future__ import annotations

import asyncio
import itertools
import types

import pytest
import uvloop

from torvyn._contract.enums import PriorityClass
from torvyn._io.turns import SLICE_S, Share, turns_here


def run(main):
    """On both loops that we run on."""
    results = []
    for make_loop in (asyncio.new_event_loop, uvloop.new_event_loop):
        with asyncio.Runner(loop_factory=make_loop) as runner:
            results.append(runner.run(main()))
    return results


async def work(share: Share, steps: list, name: object) -> None:
    while True:
        await share.take_turn()
        steps.append(name)


async def turns_of(tasks, count: int, steps: list) -> list[list]:
    """What the tasks do in each turn of the loop."""
    running = [asyncio.ensure_future(task) for task in tasks]
    turns = []
    for _ in range(count):
        await asyncio.sleep(0)
        turns.append(steps[:])
        steps.clear()
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
    return turns


@pytest.mark.parametrize("count", [1, 2, 150])
def test_one_task_goes_on_per_turn_of_the_loop(count):
    async def main():
        steps = []
        tasks = [work(Share(), steps, number) for number in range(count)]
        return await turns_of(tasks, 5 * count + 10, steps)

    for turns in run(main):
        assert max(map(len, turns)) == 1
        # None is left out, and none goes on twice before all others.
        order = list(itertools.chain(*turns))
        assert len(order) >= count
        assert all(
            len(set(order[at : at + count])) == count for at in range(len(order) - count + 1)
        )


@pytest.mark.parametrize("priority", PriorityClass)
def test_shares_follow_the_weights(priority):
    async def main():
        steps = []
        tasks = [work(Share(priority.weight), steps, "weighted"), work(Share(), steps, "normal")]
        return await turns_of(tasks, 1_000, steps)

    for turns in run(main):
        order = list(itertools.chain(*turns))
        ratio = order.count("weighted") / order.count("normal")
        assert ratio == pytest.approx(priority.weight, rel=0.02)


def test_a_newcomer_is_neither_ahead_nor_behind():
    async def main():
        steps = []
        old = asyncio.ensure_future(work(Share(), steps, "old"))
        while len(steps) < 100:
            await asyncio.sleep(0)
        steps.clear()
        turns = await turns_of([work(Share(), steps, "new")], 100, steps)
        old.cancel()
        return turns

    for turns in run(main):
        order = list(itertools.chain(*turns))
        assert abs(order.count("old") - order.count("new")) <= 2


def test_a_task_that_was_cancelled_takes_no_turn():
    async def main():
        steps = []
        kept = [work(Share(), steps, number) for number in range(3)]
        gone = asyncio.ensure_future(work(Share(), steps, "gone"))
        await asyncio.sleep(0)
        gone.cancel()
        return await turns_of(kept, 30, steps)

    for turns in run(main):
        order = list(itertools.chain(*turns))
        assert "gone" not in order
        assert len(order) >= 25


def test_a_turn_that_passed_while_the_task_did_something_else_is_taken_again():
    async def main():
        steps = []
        others = [asyncio.ensure_future(work(Share(), steps, number)) for number in range(3)]
        share = Share()

        async def late():
            for _ in range(5):
                taking = share.take_turn()
                turn = taking.send(None)
                while not turn.done():
                    await asyncio.sleep(0)
                await asyncio.sleep(0)
                await asyncio.sleep(0)
                await finish(taking, turn)
                steps.append("late")

        running = asyncio.ensure_future(late())
        turns = []
        while not running.done():
            await asyncio.sleep(0)
            turns.append(steps[:])
            steps.clear()
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        return turns

    for turns in run(main):
        assert max(map(len, turns)) == 1
        assert list(itertools.chain(*turns)).count("late") == 5


@types.coroutine
def finish(taking, turn):
    """Goes on with a coroutine that waits for `turn`, as `push_buffered` does."""
    while True:
        yield turn
        try:
            turn = taking.send(None)
        except StopIteration:
            return


def test_one_thing_begins_per_turn_of_the_loop_and_the_first_at_once():
    async def begin(steps, name):
        if (begun := turns_here().begin()) is not None:
            await begun
        steps.append(name)

    async def main():
        steps = []
        gone = asyncio.ensure_future(begin(steps, "first"))
        await gone
        assert steps == ["first"]
        steps.clear()
        return await turns_of([begin(steps, number) for number in range(20)], 40, steps)

    for turns in run(main):
        assert max(map(len, turns)) == 1
        assert list(itertools.chain(*turns)) == list(range(20))


def test_a_slice_is_over_after_its_time_unless_the_task_has_waited():
    async def main():
        now_s = 0.0
        share = Share(clock=lambda: now_s)

        def steps_until_over() -> int:
            nonlocal now_s
            steps = 0
            is_over = False
            while not is_over:
                now_s += SLICE_S / 10
                is_over = share.is_over()
                steps += 1
            return steps

        first = steps_until_over()
        await share.take_turn()
        second = steps_until_over()
        waited = []
        for _ in range(100):
            now_s += SLICE_S
            waited.append(share.is_over())
            await asyncio.sleep(0)
        return first, second, any(waited)

    for first, second, waited in run(main):
        assert 10 <= first <= 20
        assert 10 <= second <= 20
        assert not waited
