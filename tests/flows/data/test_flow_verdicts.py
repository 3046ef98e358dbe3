"""What a filter may say, and what then leaves it."""

import pytest

import torvyn
from torvyn import Verdict
from torvyn.errors import FlowError
from torvyn.testing import ScriptedSource, StallingSink

MEANING = {
    "P": True,
    "V": Verdict.PASS,
    "D": False,
    "X": Verdict.DROP,
    "H": Verdict.hold(),
    "R": Verdict.replace("***"),
    "B": Verdict.block("rude"),
}


def judge(element):
    return MEANING[element.text[0]]


def run_script(run_flow, script, **options):
    return run_flow(ScriptedSource(script.split()), torvyn.filter(judge), **options)


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("P1 V2 P3", "P1 V2 P3"),
        ("P1 D2 X3 P4", "P1 P4"),
        ("H1 H2 P3", "H1 H2 P3"),
        ("H1 H2 D3 P4", "P4"),
        ("P1 H2 H3 R4 P5", "P1 *** P5"),
        ("R1 P2", "*** P2"),
        ("P1 H2 H3", "P1 H2 H3"),
        ("P1 H2 B3 P4", "P1"),
        ("H1 P2 H3 P4", "H1 P2 H3 P4"),
    ],
)
def test_verdicts_keep_the_order(run_flow, script, expected):
    assert " ".join(run_script(run_flow, script).texts) == expected


def test_block_ends_the_stream_with_its_reason(run_flow):
    run = run_script(run_flow, "P1 B2 P3")

    assert run.end.finish_reason == "content_filter"
    assert run.end.reason == "rude"
    assert run.state == "completed"
    assert run.statistics.live == 0


def test_a_replacement_keeps_number_and_attributes(run_flow):
    source = ScriptedSource(["P0", torvyn.Output("R1", attributes={"choice": 1})])

    run = run_flow(source, torvyn.filter(judge))

    assert run.elements[1].sequence == 1
    assert dict(run.elements[1].attributes) == {"choice": 1}


def test_what_is_dropped_is_counted_as_filtered(run_flow):
    statistics = run_script(run_flow, "P1 D2 H3 D4 P5").statistics

    assert statistics.filtered == 3
    assert statistics.emitted == 2


@pytest.mark.promise("edge.bounded-flows")
def test_held_elements_count_against_the_nodes_memory(run):
    flow = torvyn.Flow()
    flow.add("source", ScriptedSource(["H" * 100] * 50))
    flow.add("guard", torvyn.filter(judge), max_memory_bytes=1000)
    flow.add("sink", "null")
    flow.connect("source", "guard").connect("guard", "sink")

    with pytest.raises(FlowError, match="`guard` exceeded its memory limit") as caught:
        run(flow)

    assert caught.value.code == "reactor.memory-exceeded"
    assert flow.statistics.live == 0


def test_the_held_bytes_are_told_and_let_go(run):
    run = run_script(run, "Hxx Hyy P3")

    node = run.statistics.nodes["filter"]
    assert node.held_bytes == 0
    assert node.peak_bytes == len("Hxx" + "Hyy")


def test_memory_of_held_elements_is_charged_to_the_filter_that_holds_them(run):
    for mode in ("inline", "thread"):
        flow = torvyn.Flow(queue_depth=2)
        flow.add("source", ScriptedSource(["H" * 100] * 50), max_memory_bytes=2000)
        flow.add("before", torvyn.filter(lambda element: True))
        flow.add("guard", torvyn.filter(judge), run=mode, max_memory_bytes=10_000)
        flow.add("sink", "null")
        flow.connect("source", "before").connect("before", "guard").connect("guard", "sink")

        with pytest.raises(FlowError) as caught:
            run(flow)

        assert caught.value.code == "reactor.memory-exceeded"
        assert caught.value.node == "guard"
        assert caught.value.message.startswith("node `guard` exceeded its memory limit: it holds")
        assert flow.statistics.live == 0


@pytest.mark.promise("edge.bounded-flows")
def test_memory_that_waits_in_queues_is_charged_to_the_node_that_made_it(run, monkeypatch):
    monkeypatch.setenv("TORVYN_RUNTIME__DRAIN_TIMEOUT", "50ms")
    flow = torvyn.Flow(queue_depth=64)
    flow.add("source", ScriptedSource(["x" * 100] * 50), max_memory_bytes=1000)
    flow.add("sink", StallingSink(after=0))
    flow.connect("source", "sink")

    with pytest.raises(FlowError, match="node `source` exceeded its memory limit"):
        run(flow)


def test_a_flow_that_is_fed_names_the_filter_that_holds_what_it_was_fed():
    flow = torvyn.Flow()
    flow.add("first", torvyn.filter(lambda element: True), max_memory_bytes=1000)
    flow.add("guard", torvyn.filter(judge))
    flow.connect("first", "guard")

    with pytest.raises(FlowError) as caught:
        for _ in range(50):
            flow.feed("H" * 100)

    assert caught.value.node == "guard"
    assert "1100 bytes in use, 1000 allowed, and node `guard` holds 1000" in caught.value.message
