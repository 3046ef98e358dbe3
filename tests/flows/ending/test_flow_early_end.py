"""How flows end before their source does: drained, cancelled, by limit and by deadline."""

import pytest

import torvyn
from torvyn import PENDING, Output
from torvyn.components import Collect
from torvyn.errors import FlowError
from torvyn.testing import CollectingSink, CountingSource, ScriptedSource, StallingSink, idle


def yes(element):
    return True


def test_draining_stops_the_source_and_delivers_what_is_inside(run_flow):
    source, sink = CountingSource(), StallingSink(after=10)
    run = run_flow(source, torvyn.filter(yes), sink, capacity=8, until=idle)
    sent = source.sent

    run.flow.drain()
    sink.release()
    run.go()

    assert run.state == "completed"
    assert len(sink.elements) == sent == source.sent
    assert sink.end is not None
    assert run.statistics.dropped == 0


def test_a_drain_that_takes_too_long_discards_and_counts(run, clock):
    source, sink = CountingSource(), StallingSink(after=10)
    ran = run(source, sink, capacity=8, until=idle, clock=clock)

    ran.flow.drain()
    ran.go(until=idle)
    assert ran.state == "draining"
    clock.advance(ran.flow.plan.runtime.drain_timeout_s)
    ran.go()

    assert ran.state == "cancelled"
    assert ran.statistics.unread == 8
    assert ran.statistics.live == 0


def test_cancelling_discards_and_counts_what_is_inside(run_flow):
    source, sink = CountingSource(), StallingSink(after=10)
    run = run_flow(source, torvyn.filter(yes), sink, capacity=8, until=idle)

    run.cancel()

    statistics = run.statistics
    assert run.state == "cancelled"
    assert sink.end is None
    assert statistics.produced == statistics.emitted + statistics.unread
    assert statistics.live == 0


def test_cancelling_twice_or_after_the_end_changes_nothing(run_flow):
    run = run_flow(ScriptedSource("ab"))

    run.flow.cancel()
    run.flow.cancel()

    assert run.state == "completed"


def test_a_flow_cancelled_before_its_start_never_starts():
    source = CountingSource()
    flow = torvyn.Flow(source, CollectingSink())

    flow.cancel()

    assert flow.state == "cancelled"
    assert flow.wait(0)
    with pytest.raises(FlowError):
        flow.run()
    assert source.sent == 0


def test_the_deadline_fails_the_flow(run, clock):
    flow = torvyn.Flow(ScriptedSource(["a", PENDING]), CollectingSink(), deadline_s=5, clock=clock)
    ran = run(flow, until=idle)
    clock.advance(4.9)
    assert ran.go(until=idle).state == "running"

    clock.advance(0.1)
    with pytest.raises(FlowError, match="did not finish within 5 s") as caught:
        ran.go()

    assert caught.value.code == "reactor.deadline-exceeded"
    assert flow.state == "failed"


def test_the_deadline_is_told_to_the_components(run, clock):
    ran = run(ScriptedSource("a"), deadline_s=5, clock=clock)

    assert ran.elements[0].context.deadline_ns is not None


def test_a_limit_drains_after_so_many_elements(run_flow):
    source, sink = CountingSource(), CollectingSink()
    flow = torvyn.Flow(source, torvyn.filter(yes), sink).limit(7)

    run_flow(flow)

    assert len(sink.elements) == 7
    assert source.sent == 7
    assert flow.state == "completed"
    assert sink.end is not None


def test_an_interrupt_drops_what_waits_and_the_flow_goes_on(run_flow):
    source, sink = CountingSource(100), StallingSink(after=5)
    run = run_flow(source, torvyn.filter(yes), sink, capacity=8, until=idle)
    sent = source.sent

    run.flow.interrupt()
    sink.release()
    run.go()

    # 5 taken and 1 in the sink's hand before; then all that was sent after the interrupt.
    assert sink.texts == [str(n) for n in [*range(6), *range(sent, 100)]]
    assert run.statistics.live == 0
    assert run.state == "completed"


def test_an_interrupt_keeps_what_is_marked_to_be_kept(run):
    items = [Output(str(n), keep=n % 3 == 0) for n in range(12)]
    source, sink = ScriptedSource(items), StallingSink(after=0)
    ran = run(source, torvyn.filter(yes), sink, capacity=4, until=idle)
    sent = source.sent

    ran.flow.interrupt()
    sink.release()
    ran.go()

    kept = [str(n) for n in range(1, sent) if n % 3 == 0]
    assert sink.texts == ["0", *kept, *(str(n) for n in range(sent, 12))]


def test_a_source_interrupts_what_it_has_sent(run):
    class Impatient(CountingSource):
        def pull(self):
            if self.sent == 20:
                self.interrupt()
            return super().pull()

    source, sink = Impatient(30), StallingSink(after=0)
    ran = run(source, sink, capacity=64, until=idle)
    sink.release()
    ran.go()

    # 0 was in the sink's hand.
    assert sink.texts == ["0", *(str(number) for number in range(20, 30))]
    assert ran.statistics.edges[0].dropped > 0


def test_an_interrupt_stops_a_generator_half_way(run):
    def process(element):
        for number in range(100):
            yield f"{element.text}{number}"

    sink = StallingSink(after=0)
    ran = run(ScriptedSource("ab"), torvyn.processor(process), sink, capacity=2, until=idle)
    ran.flow.interrupt()
    sink.release()
    ran.go()

    assert sink.texts[0] == "a0"
    assert "a50" not in sink.texts
    assert ran.statistics.live == 0


def test_interrupted_held_elements_do_not_leave(run_flow):
    verdicts = {"h": torvyn.Verdict.HOLD, "p": True}
    source = ScriptedSource(["h", "h", PENDING, "p"])
    run = run_flow(source, torvyn.filter(lambda e: verdicts[e.text]), until=idle)

    run.flow.interrupt()
    run.go(until=idle)
    source.wake()
    run.go()

    assert run.texts == ["p"]
    assert run.statistics.live == 0


def test_a_sink_that_is_done_cancels_what_is_before_it(run_flow):
    """A blocked stream has nobody listening: the source is stopped, not drained."""
    source = CountingSource()

    run = run_flow(source, torvyn.filter(lambda e: e.text != "5" or torvyn.Verdict.block("enough")))

    assert run.texts == ["0", "1", "2", "3", "4"]
    assert run.state == "completed"
    assert run.statistics.live == 0


# Nothing yet


def test_a_pending_source_parks_until_it_is_woken(run_flow):
    source = ScriptedSource(["a", PENDING, "b"])
    run = run_flow(source, until=idle)
    assert run.texts == ["a"]
    assert run.state == "running"

    source.wake()
    run.go()

    assert run.texts == ["a", "b"]


def test_a_wake_up_before_the_pending_answer_is_not_lost(run_flow):
    class Racing(torvyn.Source):
        asked = 0

        def pull(self):
            self.asked += 1
            if self.asked == 1:
                self.wake()
                return PENDING
            return None

    assert run_flow(Racing()).state == "completed"


def test_a_pending_source_is_asked_again_after_its_time(run, clock):
    ran = run(ScriptedSource(["a", PENDING.after(2), "b"]), clock=clock, until=idle)
    clock.advance(1.9)
    assert ran.go(until=idle).texts == ["a"]

    clock.advance(0.1)
    ran.go()

    assert ran.texts == ["a", "b"]


def test_one_pending_source_does_not_hold_up_another(run):
    waiting, sink = ScriptedSource([PENDING, "late"]), CollectingSink()
    flow = torvyn.Flow().add("one", waiting).add("two", ScriptedSource("ab")).add("sink", sink)
    flow.connect("one", "sink").connect("two", "sink")

    ran = run(flow, until=idle)
    assert sink.texts == ["a", "b"]
    waiting.wake()
    ran.go()

    assert sink.texts == ["a", "b", "late"]


def _ends_a_stream(stream):
    for element in stream:
        yield element.text
        if element.text == "b":
            yield torvyn.End("length", {"tokens": 2})
            raise AssertionError("nothing is asked of it after its end")


async def _ends_a_stream_on_a_loop(stream):
    async for element in stream:
        yield element.text
        if element.text == "b":
            yield torvyn.End("length", {"tokens": 2})
            raise AssertionError("nothing is asked of it after its end")


@pytest.mark.parametrize("function", [_ends_a_stream, _ends_a_stream_on_a_loop])
def test_a_stream_may_say_how_it_ends(function):
    sink = Collect()
    flow = torvyn.Flow(["a", "b", "c"], torvyn.stream(function), sink)
    flow.run()

    assert sink.texts == ["a", "b"]
    assert flow.end == torvyn.End("length", {"tokens": 2})
    assert sink.end == flow.end
