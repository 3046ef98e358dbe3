"""Back-pressure: a slow stage stops the source, through every kind of stage, to the element."""

import pytest

import torvyn
from torvyn.testing import CountingSource, StallingSink, idle

AFTER, CAPACITY = 100, 16


def yes(element):
    return True


async def yes_later(element):
    return True


class ThreadYes(torvyn.Filter):
    run = "thread"

    def evaluate(self, element):
        return True


@pytest.mark.promise("edge.queues")
def test_slow_sink_stops_the_source(run_flow):
    source, sink = CountingSource(), StallingSink(after=AFTER)

    run_flow(source, sink, capacity=CAPACITY, until=idle)

    # 100 taken by the sink, 16 waiting in the queue, 1 in the sink's hand.
    assert source.sent == AFTER + CAPACITY + 1


def test_back_pressure_passes_through_an_inline_stage(run):
    source = CountingSource()

    run(source, torvyn.filter(yes), StallingSink(after=AFTER), capacity=CAPACITY, until=idle)

    # A stage that can send nothing takes nothing: two full queues, 1 in the sink's hand.
    assert source.sent == AFTER + 2 * CAPACITY + 1


def test_back_pressure_passes_through_an_async_stage(run):
    source = CountingSource()

    run(source, torvyn.filter(yes_later), StallingSink(after=AFTER), capacity=CAPACITY, until=idle)

    assert source.sent == AFTER + 2 * CAPACITY + 1


def test_back_pressure_passes_through_a_thread_stage(run):
    source = CountingSource()

    run(source, ThreadYes(), StallingSink(after=AFTER), capacity=CAPACITY, until=idle)

    assert source.sent == AFTER + 2 * CAPACITY + 1


def test_back_pressure_passes_through_a_long_chain_of_all_kinds(run):
    source = CountingSource()
    stages = [torvyn.filter(yes), ThreadYes(), torvyn.filter(yes_later), torvyn.filter(yes)]

    run(source, *stages, StallingSink(after=AFTER), capacity=CAPACITY, until=idle)

    assert source.sent == AFTER + 5 * CAPACITY + 1


def test_back_pressure_passes_through_a_stream_stage(run):
    async def same(stream):
        async for element in stream:
            yield element.text

    source = CountingSource()

    run(source, torvyn.stream(same), StallingSink(after=AFTER), capacity=CAPACITY, until=idle)

    assert source.sent == AFTER + 2 * CAPACITY + 1


def test_a_paused_sink_goes_on_where_it_stopped(run_flow):
    source, sink = CountingSource(1000), StallingSink(after=AFTER)
    run = run_flow(source, sink, capacity=CAPACITY, until=idle)

    sink.release(after=50)
    run.go(until=idle)
    assert source.sent == AFTER + 1 + 50 + CAPACITY + 1
    sink.release()
    run.go()

    assert sink.texts == [str(number) for number in range(1000)]


def test_a_full_queue_does_not_block_a_cancel(run_flow):
    source = CountingSource()
    run = run_flow(source, torvyn.filter(yes), StallingSink(after=3), capacity=4, until=idle)

    run.cancel()

    assert run.state == "cancelled"
    assert run.end.finish_reason == "cancelled"
    assert run.statistics.live == 0
    assert run.statistics.unread > 0


def test_the_slowest_branch_of_a_fan_out_stops_the_source(run):
    source, slow, quick = CountingSource(), StallingSink(after=10), StallingSink(after=10_000)
    flow = torvyn.Flow(queue_depth=4)
    flow.add("source", source).add("slow", slow).add("quick", quick)
    flow.connect("source", "slow").connect("source", "quick")

    run(flow, until=idle)

    assert source.sent == 10 + 4 + 1
    assert len(quick.elements) == source.sent
