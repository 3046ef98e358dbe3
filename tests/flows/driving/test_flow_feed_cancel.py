"""Cancelling a fed flow ends it there and then; whoever owns a flow is collected with it."""

import asyncio
import gc
import threading
import weakref

import pytest

import torvyn
from torvyn.errors import FlowError

RUNS = pytest.mark.parametrize("run", ["inline", "thread", "async"])


class Session:
    """Owns a flow whose component and whose callback are the session's own."""

    def __init__(self, run):
        self.torn = threading.Event()
        self.rung = 0
        session = self

        class Shout(torvyn.Processor):
            def process(self, element):
                return session.shout(element)

            def teardown(self):
                session.torn.set()

        class ShoutLater(Shout):
            async def process(self, element):
                return session.shout(element)

        self.flow = torvyn.Flow()
        self.flow.add("shout", ShoutLater() if run == "async" else Shout(), run=run)

    def shout(self, element):
        return element.text.upper()

    def ring(self):
        self.rung += 1


@RUNS
def test_cancel_ends_a_fed_flow_without_further_calls(run):
    session = Session(run)
    session.flow.feed("a")

    session.flow.cancel()

    assert session.flow.state == "cancelled"
    assert session.torn.is_set()
    assert session.flow.statistics.live == 0
    assert session.flow.ready() == []
    with pytest.raises(FlowError) as caught:
        session.flow.feed("b")
    assert caught.value.code == "reactor.already-ran"


@RUNS
def test_cancel_from_another_thread_ends_a_fed_flow(run):
    session = Session(run)
    session.flow.feed("a")
    other = threading.Thread(target=session.flow.cancel)
    other.start()
    other.join(20)

    assert session.flow.state == "cancelled"
    assert session.torn.is_set()


def test_a_call_that_is_inside_feed_when_the_flow_is_cancelled_ends_it():
    entered, may_go_on, torn = threading.Event(), threading.Event(), []

    class Slow(torvyn.Processor):
        def process(self, element):
            entered.set()
            may_go_on.wait(20)
            return element.text

        def teardown(self):
            torn.append(threading.current_thread().name)

    flow = torvyn.Flow(Slow())
    feeding = threading.Thread(target=flow.feed, args=(["a", "b"],), name="feeding")
    feeding.start()
    assert entered.wait(20)
    flow.cancel()
    assert torn == []
    may_go_on.set()
    feeding.join(20)

    assert flow.state == "cancelled"
    assert torn == ["feeding"]


def test_a_component_may_cancel_the_flow_that_is_being_fed():
    def stop(element):
        flow.cancel()
        return element.text

    flow = torvyn.Flow(torvyn.processor(stop))

    flow.feed(["a", "b"])

    assert flow.state == "cancelled"
    assert flow.statistics.live == 0


@RUNS
def test_a_session_that_cancelled_its_flow_is_collected(run):
    before = threading.active_count()
    session = Session(run)
    session.flow.feed("a")
    session.flow.cancel()
    reference = weakref.ref(session)
    del session
    gc.collect()

    assert reference() is None
    assert threading.active_count() <= before + (run == "async")


def test_a_session_that_forgets_the_flow_it_is_part_of_is_collected():
    session = Session("inline")
    session.flow.feed("a")
    reference = weakref.ref(session)
    del session
    gc.collect()

    assert reference() is None


def test_an_owner_that_forgets_its_fed_flow_is_collected():
    class Owner:
        def __init__(self):
            self.flow = torvyn.Flow(torvyn.processor(lambda element: element.text))
            self.rung = []

        def ring(self):
            self.rung.append(1)

    async def main():
        owner = Owner()
        owner.flow.on_ready(owner.ring)
        owner.flow.feed("a")
        await asyncio.sleep(0)
        reference = weakref.ref(owner)
        del owner
        gc.collect()
        await asyncio.sleep(0)
        return reference()

    assert asyncio.run(main()) is None


# A flow without a source


def test_a_flow_without_a_source_is_not_iterated():
    for iterate in (iter, torvyn.Flow.text):
        with pytest.raises(FlowError) as caught:
            next(iterate(torvyn.Flow(torvyn.filter(lambda element: True))))
        assert caught.value.code == "reactor.no-source"


def test_a_flow_without_a_source_is_not_iterated_on_a_loop():
    async def main():
        async for _ in torvyn.Flow(torvyn.filter(lambda element: True)):
            pass

    with pytest.raises(FlowError) as caught:
        asyncio.run(main())
    assert caught.value.code == "reactor.no-source"
