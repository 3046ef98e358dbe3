"""Flows without a source are fed by their caller: what is ready comes out of the call."""

import asyncio
import threading

import pytest

import torvyn
from torvyn import End
from torvyn.errors import FlowError


def shout(element):
    return element.text.upper()


async def shout_later(element):
    await asyncio.sleep(0)
    return element.text.upper()


class ThreadShout(torvyn.Processor):
    run = "thread"

    def process(self, element):
        return element.text.upper()


AWAY = pytest.mark.parametrize("stage", [lambda: torvyn.processor(shout_later), ThreadShout])


def texts(elements):
    return [element.text for element in elements]


def test_what_is_fed_comes_out_of_the_same_call():
    flow = torvyn.Flow(torvyn.processor(shout))

    assert texts(flow.feed("a")) == ["A"]
    assert texts(flow.feed(["b", b"c"])) == ["B", "C"]
    assert texts(flow.finish()) == []
    assert flow.state == "completed"


def test_finishing_gives_what_a_flush_makes_and_the_end():
    sentences = torvyn.Flow(torvyn.aggregator(lambda e: None, lambda: ["rest"]))

    assert sentences.feed("a") == []
    assert texts(sentences.finish(End("length"))) == ["rest"]
    assert sentences.end == End("length")


def test_a_call_takes_more_than_the_queues_hold():
    flow = torvyn.Flow(torvyn.processor(shout), torvyn.filter(lambda e: True), queue_depth=4)

    assert texts(flow.feed(["a"] * 1000)) == ["A"] * 1000
    flow.finish()


def test_fed_elements_are_numbered_and_keep_their_attributes():
    flow = torvyn.Flow(torvyn.filter(lambda e: True))

    out = flow.feed(["a", torvyn.Output("b", attributes={"choice": 1})])

    assert [element.sequence for element in out] == [0, 1]
    assert dict(out[1].attributes) == {"choice": 1}
    flow.finish()


def feed_all(flow, items):
    """Feeds and waits on a thread, as a server without a loop would."""
    rung = threading.Event()
    flow.on_ready(rung.set)
    out = texts(flow.feed(items))
    out += texts(flow.finish())
    while flow.state not in ("completed", "failed", "cancelled"):
        assert rung.wait(20), "on_ready was not called"
        rung.clear()
        out += texts(flow.ready())
    return out


@AWAY
def test_a_stage_elsewhere_rings_when_more_is_ready(stage):
    flow = torvyn.Flow(stage())

    assert feed_all(flow, list("abc")) == ["A", "B", "C"]
    assert flow.statistics.live == 0


@AWAY
def test_on_a_loop_the_ring_comes_on_that_loop(stage):
    async def main():
        flow, rung, out = torvyn.Flow(stage()), asyncio.Event(), []
        ringers = set()

        def ring():
            ringers.add(threading.get_ident())
            rung.set()

        flow.on_ready(ring)
        out += texts(flow.feed(list("abc")))
        out += texts(flow.finish())
        while flow.state != "completed":
            await asyncio.wait_for(rung.wait(), 20)
            rung.clear()
            out += texts(flow.ready())
        return out, ringers

    out, ringers = asyncio.run(main())
    assert out == ["A", "B", "C"]
    assert ringers == {threading.get_ident()}


def test_a_flow_that_cannot_take_all_says_how_many_it_took():
    class Never(torvyn.Processor):
        run = "thread"

        def process(self, element):
            blocked.wait()

    blocked = threading.Event()
    flow = torvyn.Flow(Never())

    with pytest.raises(FlowError, match="the flow accepted") as caught:
        flow.feed(["a"] * 1000)

    assert caught.value.code == "reactor.feed-full"
    # 1 in the component's hand, 64 in the queue.
    assert caught.value.accepted == 1 + 64
    flow.cancel()
    blocked.set()
    flow.ready()
    assert flow.state == "cancelled"


def test_a_failure_comes_out_of_the_call():
    def broken(element):
        raise torvyn.Unavailable("away")

    flow = torvyn.Flow(torvyn.filter(broken))

    with pytest.raises(torvyn.Unavailable, match="away"):
        flow.feed("a")
    assert flow.state == "failed"


def test_a_flow_with_a_source_cannot_be_fed():
    with pytest.raises(FlowError) as caught:
        torvyn.Flow(["a"], torvyn.filter(lambda e: True)).feed("b")

    assert caught.value.code == "reactor.has-source"


def test_a_fed_flow_may_end_in_a_sink():
    got = []
    flow = torvyn.Flow(torvyn.processor(shout), torvyn.sink(lambda e: got.append(e.text)))

    assert flow.feed("a") == []
    assert flow.finish() == []
    assert got == ["A"]


def test_feeding_what_is_no_element_is_refused_and_the_flow_goes_on():
    flow = torvyn.Flow(torvyn.processor(shout))

    with pytest.raises(torvyn.TorvynError) as caught:
        flow.feed(5)
    assert caught.value.code == "contract.wrong-result"
    assert texts(flow.feed("a")) == ["A"]
    flow.finish()


def test_a_cancelled_feed_lets_everything_go():
    flow = torvyn.Flow(torvyn.filter(lambda e: torvyn.Verdict.hold()))
    flow.feed(["a", "b"])

    flow.cancel()

    assert flow.ready() == []
    assert flow.state == "cancelled"
    assert flow.statistics.live == 0


def test_a_verdict_may_end_a_fed_flow_half_way():
    def judge(element):
        return torvyn.Verdict.block("rude") if element.text == "bad" else True

    flow = torvyn.Flow(torvyn.filter(judge))

    out = flow.feed(["a"] * 100 + ["bad"] + ["b"] * 100)

    assert texts(out) == ["a"] * 100
    assert flow.end.finish_reason == "content_filter"
    with pytest.raises(FlowError) as caught:
        flow.feed("c")
    assert caught.value.code == "reactor.already-ran"


def test_a_flow_is_not_fed_from_inside_its_own_component():
    refusals = []

    def greedy(element):
        try:
            flow.feed("b")
        except FlowError as error:
            refusals.append(error.code)
        return element.text

    flow = torvyn.Flow(torvyn.processor(greedy))

    assert texts(flow.feed("a")) == ["a"]
    assert refusals == ["reactor.busy"]
    flow.finish()
