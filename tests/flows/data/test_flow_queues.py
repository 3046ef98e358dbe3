"""Queues: bounded in elements and bytes, four policies for when they are full, two watermarks."""

import pytest

import torvyn
from torvyn import Signal
from torvyn.errors import FlowError
from torvyn.testing import CollectingSink, CountingSource, ScriptedSource, StallingSink, idle

DEPTH = 8


def edge_flow(source, sink, **edge):
    flow = torvyn.Flow().add("source", source).add("sink", sink)
    return flow.connect("source", "sink", **edge)


@pytest.mark.promise("edge.queues")
def test_block_loses_nothing_and_stays_within_the_depth(run_flow):
    run = run_flow(CountingSource(1000), torvyn.filter(lambda e: True), capacity=16)

    assert run.texts == [str(number) for number in range(1000)]
    assert all(edge.peak <= 16 for edge in run.statistics.edges)
    assert run.statistics.dropped == 0


def test_the_peak_is_exactly_the_depth_when_the_sink_is_slow(run):
    sink = StallingSink(after=0)
    ran = run(CountingSource(1000), sink, capacity=16, until=idle)
    sink.release()

    ran.go()

    assert len(sink.elements) == 1000
    assert ran.statistics.edges[0].peak == 16


def test_drop_oldest_keeps_the_newest(run):
    sink = StallingSink(after=0)
    ran = run(
        edge_flow(CountingSource(100), sink, queue_depth=DEPTH, backpressure="drop-oldest"),
        until=idle,
    )
    sink.release()
    ran.go()

    # 0 was in the sink's hand; of the rest the last 8 are left.
    assert sink.texts == ["0", *(str(number) for number in range(100 - DEPTH, 100))]
    assert ran.statistics.edges[0].dropped == 100 - 1 - DEPTH
    assert ran.statistics.live == 0


def test_drop_newest_keeps_the_oldest(run):
    sink = StallingSink(after=0)
    ran = run(
        edge_flow(CountingSource(100), sink, queue_depth=DEPTH, backpressure="drop-newest"),
        until=idle,
    )
    sink.release()
    ran.go()

    assert sink.texts == [str(number) for number in range(1 + DEPTH)]
    assert ran.statistics.dropped == 100 - 1 - DEPTH
    assert ran.statistics.live == 0


def test_error_fails_the_flow_when_the_queue_is_full(run, monkeypatch):
    monkeypatch.setenv("TORVYN_RUNTIME__DRAIN_TIMEOUT", "50ms")
    flow = edge_flow(CountingSource(100), StallingSink(), queue_depth=DEPTH, backpressure="error")

    with pytest.raises(FlowError, match="from `source:output` to `sink` is full") as caught:
        run(flow)

    assert caught.value.code == "reactor.queue-full"
    assert flow.statistics.live == 0


@pytest.mark.promise("edge.queues")
def test_a_queue_is_bounded_in_bytes_as_well(run):
    source, sink = ScriptedSource(["x" * 100] * 50), StallingSink(after=0)

    ran = run(edge_flow(source, sink, queue_bytes=350), until=idle)

    # 1 in the sink's hand, 3 in the queue, and 1 that did not fit in the source's hand.
    assert source.sent == 1 + 3 + 1
    assert ran.statistics.edges[0].peak_bytes == 300


def test_an_element_larger_than_the_queue_enters_an_empty_one_alone(run):
    source, sink = ScriptedSource(["x" * 1000, "y" * 1000, "z"]), StallingSink(after=0)

    ran = run(edge_flow(source, sink, queue_bytes=100), until=idle)
    sink.release()
    ran.go()

    assert [len(text) for text in sink.texts] == [1000, 1000, 1]
    assert ran.statistics.edges[0].peak == 1


def test_back_pressure_is_told_once_per_transition(run):
    source, sink = CountingSource(), StallingSink(after=0)
    ran = run(edge_flow(source, sink, queue_depth=8, low_watermark=0.5), until=idle)
    assert source.signals == [Signal.PAUSE]

    for taken in (1, 1, 1):
        sink.release(after=taken)
        ran.go(until=idle)

    # The queue is filled again before it falls to the low mark: nothing has changed.
    assert source.signals == [Signal.PAUSE]


@pytest.mark.parametrize(("low", "still_paused"), [(0.5, 4), (0.25, 2), (0.0, 0)])
def test_back_pressure_ends_at_the_low_watermark(run, low, still_paused):
    items = [str(number) for number in range(9)]
    source, sink = ScriptedSource([*items, torvyn.PENDING, "late"]), StallingSink(after=0)
    ran = run(edge_flow(source, sink, queue_depth=8, low_watermark=low), until=idle)
    seen = {}
    for left in range(7, -1, -1):
        sink.release(after=0)
        ran.go(until=idle)
        seen[left] = list(source.signals)

    assert seen[still_paused] == [Signal.PAUSE, Signal.READY]
    assert all(seen[left] == [Signal.PAUSE] for left in seen if left > still_paused)


def test_a_source_hears_ready_before_it_is_asked_again(run_flow):
    class Careful(CountingSource):
        def pull(self):
            heard.append(self.signals[-1] if self.signals else Signal.READY)
            return super().pull()

    heard = []
    source = Careful(200)
    run = run_flow(source, torvyn.filter(lambda e: True), capacity=1)

    assert len(run.texts) == 200
    assert set(heard) == {Signal.READY}
    pairs = list(zip(source.signals, source.signals[1:], strict=False))
    assert all(one is not other for one, other in pairs)


def test_a_failing_notice_is_reported_and_the_stream_goes_on(run, monkeypatch):
    class Broken(CountingSource):
        def notify_backpressure(self, signal):
            raise RuntimeError("not listening")

    reports = []
    monkeypatch.setattr("sys.unraisablehook", lambda report: reports.append(report.exc_value))

    ran = run(Broken(50), CollectingSink(), capacity=4)

    assert ran.statistics.emitted == 50
    assert {str(report) for report in reports} == {"not listening"}
