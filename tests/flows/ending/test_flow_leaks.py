"""Nothing leaks: not components, not threads, not descriptors, not callbacks on a loop."""

import asyncio
import gc
import os
import threading
import time
import weakref

import pytest

import torvyn
from torvyn.errors import Internal
from torvyn.testing import (
    VARIANTS,
    CollectingSink,
    CountingSource,
    ScriptedSource,
    StallingSink,
    as_variant,
    idle,
    run_flow,
)


def gone(references):
    gc.collect()
    return all(reference() is None for reference in references)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("how", ["completed", "cancelled", "failed"])
def test_components_die_with_their_flow(variant, how):
    def judge(element):
        if how == "failed" and element.text == "5":
            raise Internal("no")
        return True

    sink = StallingSink(after=3) if how == "cancelled" else CollectingSink()
    stages = [CountingSource(10), torvyn.filter(judge), sink]
    references = [weakref.ref(stage) for stage in stages]
    try:
        run = run_flow(*stages, variant=variant, until=idle)
        run.close()
        assert run.state == how
        del run
    except Internal:
        pass
    del stages, sink

    assert gone(references)


def test_components_of_a_flow_on_the_workers_die_with_it():
    stages = [CountingSource(10), torvyn.filter(lambda e: True), CollectingSink()]
    references = [weakref.ref(stage) for stage in stages]
    flow = torvyn.Flow(*stages).start()
    assert flow.wait(20)
    del stages, flow

    assert gone(references)


def test_a_finished_flow_that_is_kept_lets_its_elements_go():
    class Big(str):
        pass

    payload = Big("x" * 1000)
    reference = weakref.ref(payload)
    flow = torvyn.Flow(iter([payload]), torvyn.filter(lambda e: True), torvyn.sink(lambda e: None))
    flow.run()
    del payload

    assert gone([reference])


def test_an_iterator_that_is_dropped_unfinished_takes_its_flow_along():
    source = CountingSource()
    reference = weakref.ref(source)
    elements = iter(torvyn.Flow(source, torvyn.filter(lambda e: True)))
    next(elements)
    del elements, source

    assert gone([reference])


def test_a_flow_that_never_started_is_collected():
    source = CountingSource()
    reference = weakref.ref(source)
    flow = torvyn.Flow(source, CollectingSink())
    assert flow.plan.nodes
    del flow, source

    assert gone([reference])


def test_threads_end_with_their_flow():
    before = threading.active_count()
    for _ in range(5):
        run_flow(ScriptedSource("abc"), torvyn.filter(lambda e: True), variant="thread")

    assert threading.active_count() == before


FLOWS = 50
"""So many that a leak stands out from what threads of earlier tests open meanwhile."""


def descriptors():
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


def test_flows_give_their_descriptors_back():
    def once():
        list(torvyn.Flow(["a"], torvyn.filter(lambda e: True)))

    once()
    before = descriptors()
    for _ in range(FLOWS):
        once()

    assert descriptors() < before + FLOWS // 2


def test_loops_give_their_descriptors_back():
    async def once():
        return [e async for e in torvyn.Flow(["a"], torvyn.filter(lambda e: True))]

    asyncio.run(once())
    before = descriptors()
    for _ in range(FLOWS):
        asyncio.run(once())

    assert descriptors() < before + FLOWS // 2


def test_a_fed_flow_leaves_no_callback_behind():
    class Bell:
        def ring(self):
            pass

    async def main():
        bell = Bell()
        flow = torvyn.Flow(torvyn.filter(lambda e: True))
        flow.on_ready(bell.ring)
        flow.feed("a")
        flow.finish()
        await asyncio.sleep(0)
        reference = weakref.ref(bell)
        del bell, flow
        await asyncio.sleep(0)
        return gone([reference])

    assert asyncio.run(main())


@pytest.mark.parametrize("variant", ["thread", "async"])
def test_a_flow_that_is_fed_and_forgotten_is_collected(variant):
    stage = as_variant(torvyn.filter(lambda e: True), variant)
    reference = weakref.ref(stage)
    flow = torvyn.Flow(stage)
    flow.feed("a")
    flow.cancel()
    flow.ready()
    del flow, stage

    assert gone([reference])


@pytest.mark.parametrize("run", ["thread", "async"])
def test_a_loop_that_ends_right_after_it_was_left_lets_go_of_the_stages(run):
    async def later(element):
        await asyncio.sleep(0)
        return True

    def now(element):
        return True

    async def main(stages):
        flow = torvyn.Flow().add("source", CountingSource())
        flow.add("stage", stages.pop(), run=run).connect("source", "stage")
        async for element in flow:
            if element.text == "3":
                break

    references = []
    before = threading.active_count(), descriptors()
    for _ in range(FLOWS):
        stages = [torvyn.filter(later if run == "async" else now)]
        references.append(weakref.ref(stages[0]))
        asyncio.run(main(stages))
    for thread in threading.enumerate():
        if thread.name == "torvyn-FunctionFilter":
            thread.join(20)
    # What an execution lets go of while it is collected goes with the next collection, and a
    # thread that was told to stop may hold its stage for another moment.
    deadline_s = time.monotonic() + 20
    while not gone(references) and time.monotonic() < deadline_s:
        time.sleep(0.01)

    assert gone(references)
    assert threading.active_count() < before[0] + FLOWS // 2
    assert descriptors() < before[1] + FLOWS // 2
