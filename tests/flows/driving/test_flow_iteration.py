"""Flows that a program iterates, with `for` and `async for`, inside and outside a running loop."""

import asyncio
import gc
import threading

import pytest

import torvyn
from torvyn.errors import FlowError
from torvyn.testing import CountingSource

YES = torvyn.filter(lambda element: True)


class Tracked:
    """A generator that tells when it was closed."""

    def __init__(self):
        self.closed = 0
        self.sent = 0

    def __call__(self):
        try:
            while True:
                self.sent += 1
                yield str(self.sent)
        finally:
            self.closed += 1


class AsyncTracked(Tracked):
    async def items(self):
        try:
            while True:
                self.sent += 1
                yield str(self.sent)
                await asyncio.sleep(0)
        finally:
            self.closed += 1


def test_a_flow_is_iterated():
    flow = torvyn.Flow(["a", "b", "c"], torvyn.filter(lambda e: e.text != "b"))

    assert [element.text for element in flow] == ["a", "c"]
    assert flow.state == "completed"


def test_the_texts_of_a_flow_are_iterated():
    assert list(torvyn.Flow(["a", b"b"]).text()) == ["a", "b"]


def test_leaving_the_loop_cancels_the_source():
    tracked = Tracked()
    flow = torvyn.Flow(torvyn.source(tracked), YES)

    for element in flow:
        if element.text == "3":
            break
    gc.collect()

    assert tracked.closed == 1
    assert flow.state == "cancelled"
    assert flow.statistics.live == 0


def test_an_exception_in_the_loops_body_cancels_the_source():
    tracked = Tracked()

    with pytest.raises(ZeroDivisionError):
        [1 / 0 for _ in torvyn.Flow(torvyn.source(tracked), YES)]
    gc.collect()

    assert tracked.closed == 1


def test_a_blocking_source_is_not_read_ahead_of_its_token():
    seen = []

    def items():
        for number in range(100):
            seen.append(number)
            yield str(number)

    for count, _ in enumerate(torvyn.Flow(torvyn.source(items)), 1):
        if count == 1:
            assert seen == [0]
            break


def test_two_instances_of_one_flow_run_side_by_side():
    class Numbers(torvyn.Source):
        def init(self, config):
            self.next = 0

        def pull(self):
            self.next += 1
            return str(self.next) if self.next < 4 else None

    flows = [torvyn.Flow(Numbers(), YES) for _ in range(2)]
    first, second = (iter(flow) for flow in flows)

    mixed = [next(first).text, next(second).text, next(first).text, next(second).text]

    assert mixed == ["1", "1", "2", "2"]
    assert [e.text for e in first] == [e.text for e in second] == ["3"]


def test_two_flows_of_one_project_share_nothing():
    project = torvyn.load("examples/token-streaming")
    one, two = project.flow("main"), project.flow("main")

    assert one.run().to_dict()["produced"] == two.run().to_dict()["produced"] == 20


def test_a_failure_is_raised_after_what_came_before_it():
    def broken(element):
        if element.text == "c":
            raise torvyn.InvalidInput("no c")
        return True

    got = []
    with pytest.raises(torvyn.InvalidInput, match="no c"):
        got.extend(torvyn.Flow(list("abcd"), torvyn.filter(broken)).text())
    assert got == ["a", "b"]


def test_a_flow_runs_once():
    flow = torvyn.Flow(["a"])
    list(flow)

    with pytest.raises(FlowError) as caught:
        list(flow)
    assert caught.value.code == "reactor.already-ran"


# Inside a running event loop


def on_loop(main):
    return asyncio.run(asyncio.wait_for(main(), 30))


def test_async_for_works_inside_a_running_loop():
    async def main():
        return [element.text async for element in torvyn.Flow(["a", "b"], YES)]

    assert on_loop(main) == ["a", "b"]


def test_for_works_inside_a_running_loop():
    async def main():
        return [element.text for element in torvyn.Flow(["a", "b"], YES)]

    assert on_loop(main) == ["a", "b"]


def test_for_inside_a_running_loop_works_with_an_async_stage():
    async def shout(element):
        await asyncio.sleep(0)
        return element.text.upper()

    async def main():
        return [element.text for element in torvyn.Flow(["a", "b"], torvyn.processor(shout))]

    assert on_loop(main) == ["A", "B"]


def test_async_stages_run_on_the_loop_that_iterates():
    threads = set()

    async def note(element):
        threads.add(threading.get_ident())
        await asyncio.sleep(0)
        return True

    async def main():
        return [element.text async for element in torvyn.Flow(["a", "b"], torvyn.filter(note))]

    assert on_loop(main) == ["a", "b"]
    assert threads == {threading.get_ident()}


def test_other_tasks_run_between_the_elements():
    async def main():
        beats = 0

        async def beat():
            nonlocal beats
            while True:
                beats += 1
                await asyncio.sleep(0)

        task = asyncio.create_task(beat())
        count = 0
        async for _ in torvyn.Flow(CountingSource(5000), YES):
            count += 1
        task.cancel()
        return count, beats

    count, beats = on_loop(main)
    assert count == 5000
    assert beats > 10


def test_leaving_async_for_and_closing_cancels_the_source():
    tracked = AsyncTracked()

    async def main():
        flow = torvyn.Flow(torvyn.source(tracked.items), YES)
        elements = aiter(flow)
        async for element in elements:
            if element.text == "3":
                break
        await elements.aclose()
        return flow

    flow = on_loop(main)
    assert tracked.closed == 1
    assert flow.state == "cancelled"
    assert flow.statistics.live == 0


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_leaving_async_for_cancels_the_source(kind):
    tracked = Tracked() if kind == "sync" else AsyncTracked()
    items = tracked if kind == "sync" else tracked.items

    async def main():
        flow = torvyn.Flow(torvyn.source(items), YES)
        async for element in flow:
            if element.text == "3":
                break
        gc.collect()
        for _ in range(100):
            if tracked.closed:
                break
            await asyncio.sleep(0)
        return flow

    flow = on_loop(main)
    assert tracked.closed == 1
    assert flow.state == "cancelled"


def test_cancelling_the_task_that_iterates_cancels_the_source():
    tracked = AsyncTracked()

    async def main():
        started = asyncio.Event()

        async def consume():
            async for _ in torvyn.Flow(torvyn.source(tracked.items), YES):
                started.set()

        task = asyncio.create_task(consume())
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    on_loop(main)
    assert tracked.closed == 1


def test_a_flow_with_a_sink_is_run_on_the_loop():
    got = []

    async def push(element):
        await asyncio.sleep(0)
        got.append(element.text)

    async def main():
        flow = torvyn.Flow(["a", "b"], torvyn.sink(push))
        return await flow.run_async()

    assert on_loop(main).emitted == 2
    assert got == ["a", "b"]


def test_many_flows_are_iterated_at_once_on_one_loop():
    async def consume(number):
        source = [f"{number}-{at}" for at in range(20)]

        async def later(element):
            await asyncio.sleep(0)
            return True

        return source, [e.text async for e in torvyn.Flow(source, torvyn.filter(later))]

    async def main():
        return await asyncio.gather(*(consume(number) for number in range(50)))

    for sent, got in on_loop(main):
        assert got == sent


def test_iterating_a_flow_with_a_sink_is_refused():
    flow = torvyn.Flow(["a"], torvyn.sink(lambda e: None))

    with pytest.raises(FlowError) as caught:
        iter(flow).__next__()
    assert caught.value.code == "reactor.has-sink"
