"""Fan-out, fan-in and routers: one buffer for all, a fair share for each, declared ports only."""

from collections import Counter

import pytest

import torvyn
from torvyn.errors import ContractError
from torvyn.testing import CollectingSink, CountingSource, ScriptedSource, StallingSink, idle


def fan_out(source, *sinks, **options):
    flow = torvyn.Flow(**options).add("source", source)
    for number, sink in enumerate(sinks):
        flow.add(f"sink-{number}", sink).connect("source", f"sink-{number}")
    return flow


def fan_in(sink, *sources, **options):
    flow = torvyn.Flow(**options).add("sink", sink)
    for number, source in enumerate(sources):
        flow.add(f"source-{number}", source).connect(f"source-{number}", "sink")
    return flow


def test_fan_out_gives_everything_to_everybody(run):
    sinks = [CollectingSink() for _ in range(4)]

    run(fan_out(CountingSource(100), *sinks))

    for sink in sinks:
        assert sink.texts == [str(number) for number in range(100)]


def test_fan_out_shares_one_buffer_and_accounts_for_it_once(run):
    sinks = [CollectingSink() for _ in range(3)]
    payload = "x" * 5000

    ran = run(fan_out(ScriptedSource([payload] * 10), *sinks))

    assert ran.statistics.allocations == ran.statistics.releases == 10
    assert ran.statistics.nodes["source"].peak_bytes <= 10 * len(payload)
    for sink in sinks:
        assert sink.texts == [payload] * 10


def test_fan_out_gives_the_same_text_to_everybody(run):
    sinks = [CollectingSink() for _ in range(3)]

    run(fan_out(ScriptedSource(["x" * 5000] * 10), *sinks))

    rows = list(zip(*(sink.texts for sink in sinks), strict=True))
    assert len(rows) == 10
    for first, *others in rows:
        assert all(text is first for text in others)


def test_a_shared_buffer_lives_until_its_last_reader_has_it(run):
    quick, slow = CollectingSink(), StallingSink(after=0)
    ran = run(fan_out(ScriptedSource("abc"), quick, slow), until=idle)
    assert ran.statistics.releases == 1

    slow.release()
    ran.go()

    assert ran.statistics.releases == ran.statistics.allocations == 3


def test_fan_in_takes_from_every_source_and_keeps_the_order_of_each(run):
    sink = CollectingSink()
    sources = [ScriptedSource([f"{name}{n}" for n in range(50)]) for name in "abc"]

    run(fan_in(sink, *sources))

    for name in "abc":
        assert [t for t in sink.texts if t[0] == name] == [f"{name}{n}" for n in range(50)]
    assert len(sink.texts) == 150


def test_fan_in_is_fair(run):
    """A source with everything ready does not starve the others."""
    sink = StallingSink(after=299)
    sources = [ScriptedSource([name] * 1000) for name in "abc"]

    run(fan_in(sink, *sources, queue_depth=16), until=idle)

    shares = Counter(sink.texts)
    assert sum(shares.values()) == 300
    assert max(shares.values()) - min(shares.values()) <= 2 * 16


def test_an_end_waits_for_every_input(run):
    sink = CollectingSink()
    late = ScriptedSource([torvyn.PENDING, "late"], end=torvyn.End("length"))
    ran = run(fan_in(sink, ScriptedSource("a"), late), until=idle)
    assert sink.end is None

    late.wake()
    ran.go()

    assert sink.texts == ["a", "late"]
    assert sink.end == torvyn.End("length")


def test_a_diamond_delivers_each_element_once_per_way(run):
    sink = CollectingSink()
    flow = torvyn.Flow(queue_depth=3).add("source", CountingSource(200)).add("sink", sink)
    for side in ("left", "right"):
        stage = torvyn.processor(lambda e, side=side: f"{side}{e.text}")
        flow.add(side, stage).connect("source", side).connect(side, "sink")

    run(flow)

    assert Counter(sink.texts) == Counter(f"{s}{n}" for s in ("left", "right") for n in range(200))


def routed(route, *ports, items="abcd", **options):
    flow = torvyn.Flow(**options).add("source", ScriptedSource(items))
    flow.add("router", torvyn.router(route, ports)).connect("source", "router")
    sinks = {port: CollectingSink() for port in ports}
    for port, sink in sinks.items():
        flow.add(f"to-{port}", sink).connect(f"router:{port}", f"to-{port}")
    return flow, sinks


def test_a_router_sends_to_the_ports_it_names(run):
    answers = {"a": ["left"], "b": ("right",), "c": ["left", "right"], "d": []}

    flow, sinks = routed(lambda e: answers[e.text], "left", "right")
    ran = run(flow)

    assert sinks["left"].texts == ["a", "c"]
    assert sinks["right"].texts == ["b", "c"]
    assert ran.statistics.nodes["router"].filtered == 1
    assert ran.statistics.live == 0


def test_a_router_may_name_one_port_without_a_list(run):
    flow, sinks = routed(lambda e: "left", "left", "right")

    run(flow)

    assert sinks["left"].texts == list("abcd")


@pytest.mark.parametrize("parts", ["inline", "thread"])
def test_a_port_that_was_not_declared_is_an_error(run, parts):
    flow = torvyn.Flow().add("source", ScriptedSource("a"))
    flow.add("router", torvyn.router(lambda e: ["metrcs"], ["metrics", "logs"]), run=parts)
    flow.add("one", "null").add("two", "null").connect("source", "router")
    flow.connect("router:metrics", "one").connect("router:logs", "two")

    with pytest.raises(ContractError, match="metrcs"):
        run(flow)


def test_a_full_port_holds_up_the_router_and_loses_nothing(run):
    flow, sinks = routed(
        lambda e: "left" if int(e.text) % 2 else "right",
        "left",
        "right",
        items=[str(n) for n in range(100)],
        queue_depth=2,
    )

    run(flow)

    assert sinks["left"].texts == [str(n) for n in range(100) if n % 2]
    assert sinks["right"].texts == [str(n) for n in range(100) if n % 2 == 0]


def test_a_branch_that_is_blocked_does_not_end_the_others(run):
    blocked, free = CollectingSink(), CollectingSink()
    flow = torvyn.Flow().add("source", CountingSource(10)).add("free", free).add("blocked", blocked)
    flow.add("guard", torvyn.filter(lambda e: e.text != "3" or torvyn.Verdict.block("no")))
    flow.connect("source", "free").connect("source", "guard").connect("guard", "blocked")

    ran = run(flow)

    assert blocked.texts == ["0", "1", "2"]
    assert len(free.texts) == 10
    assert ran.statistics.live == 0


def test_a_source_interrupts_only_what_came_from_it(run):
    class Impatient(ScriptedSource):
        def pull(self):
            if self.sent == 3:
                self.interrupt()
            return super().pull()

    one, other = StallingSink(), StallingSink()
    flow = torvyn.Flow()
    flow.add("impatient", Impatient("abcde")).add("one", one).connect("impatient", "one")
    flow.add("calm", ScriptedSource("vwxyz")).add("other", other).connect("calm", "other")
    ran = run(flow, until=idle)

    one.release()
    other.release()
    ran.go()

    assert other.texts == list("vwxyz")
    assert one.texts == ["a", "d", "e"]
