"""What stages on threads and loops may make before they must ask: elements, bytes and limits."""

import pytest

import torvyn
from torvyn.testing import CollectingSink, ScriptedSource, StallingSink, as_variant, idle, run_flow


@pytest.mark.parametrize("mode", ["thread", "async"])
def test_a_source_elsewhere_keeps_to_the_bytes_of_its_queue(mode):
    source, sink = ScriptedSource(["x" * 100] * 200), StallingSink(after=0)
    flow = torvyn.Flow(as_variant(source, mode), sink, queue_bytes=350)

    run = run_flow(flow, until=idle)

    # 1 in the sink's hand, 3 in the queue, 1 that did not fit in the source's hand.
    assert run.statistics.edges[0].peak_bytes <= 350
    assert source.sent <= 1 + 3 + 1
    run.cancel()
    assert run.statistics.live == 0


@pytest.mark.parametrize("mode", ["thread", "async"])
def test_a_limit_is_kept_by_several_sources_elsewhere(mode):
    flow = torvyn.Flow().add("sink", CollectingSink())
    for name in ("one", "two", "three"):
        flow.add(name, as_variant(ScriptedSource([name] * 100), mode)).connect(name, "sink")

    statistics = flow.limit(40).run()

    assert statistics.produced == 40
    assert statistics.emitted == 40
