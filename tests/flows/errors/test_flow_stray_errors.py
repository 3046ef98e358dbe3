"""What goes wrong beside a call that is answered: it is told, and never leaves a flow waiting."""

import asyncio
import gc
import threading

import pytest

import torvyn
from torvyn import PENDING
from torvyn.errors import ContractError, Fatal, Internal, Unavailable
from torvyn.testing import CollectingSink, CountingSource

AWAY = pytest.mark.parametrize("run", ["inline", "thread"])


def chain(*nodes):
    """A flow of `(component, options)`."""
    flow, previous = torvyn.Flow(queue_depth=4), None
    for number, (component, options) in enumerate(nodes):
        flow.add(f"n{number}", component, **options)
        if previous is not None:
            flow.connect(previous, f"n{number}")
        previous = f"n{number}"
    return flow


@AWAY
def test_an_iterator_that_cannot_be_made_fails_the_flow(run):
    class Broken(torvyn.Source):
        def __iter__(self):
            raise ValueError("no iterator")

    flow = chain((Broken(), {"run": run}), (CollectingSink(), {}))

    with pytest.raises((Internal, ValueError), match="no iterator"):
        flow.start().wait(20)


@AWAY
def test_a_source_that_fails_at_a_notice_goes_on(run):
    class Touchy(torvyn.Source):
        def __init__(self):
            super().__init__()
            self.left, self.told = 50, 0

        def pull(self):
            self.left -= 1
            return str(self.left) if self.left >= 0 else None

        def notify_backpressure(self, signal):
            self.told += 1
            raise ValueError("do not tell me")

    source, sink = Touchy(), CollectingSink()

    class Pausing(torvyn.Filter):
        async def evaluate(self, element):
            await asyncio.sleep(0)
            return True

    flow = chain((source, {"run": run}), (Pausing(), {}), (sink, {}))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.unraisablehook", lambda raised: None)
        assert flow.start().wait(20)
    assert source.told
    assert len(sink.texts) == 50


def test_something_cancelled_inside_an_async_component_is_its_failure():
    async def process(element):
        task = asyncio.ensure_future(asyncio.sleep(60))
        task.cancel()
        return await task

    flow = torvyn.Flow(["a"], torvyn.processor(process), CollectingSink()).start()

    with pytest.raises(Internal, match="cancelled"):
        flow.wait(20)


def test_an_async_component_that_exits_fails_its_flow_and_no_other():
    async def leave(element):
        raise SystemExit(3)

    async def stay(element):
        return element.text

    with pytest.raises(Fatal, match=r"node `processor` failed .* SystemExit: 3"):
        torvyn.Flow(["a"], torvyn.processor(leave), CollectingSink()).run()
    sink = CollectingSink()
    torvyn.Flow(["a"], torvyn.processor(stay), sink).run()

    assert sink.texts == ["a"]


def test_a_component_that_exits_from_teardown_does_not_keep_those_who_wait():
    torn = []

    class First(torvyn.Filter):
        def evaluate(self, element):
            return True

        def teardown(self):
            torn.append("first")

    class Last(torvyn.Sink):
        def push(self, element):
            pass

        def teardown(self):
            raise SystemExit(3)

    assert torvyn.Flow(["a"], First(), Last()).start().wait(20)
    assert torn == ["first"]


def test_what_an_async_component_made_before_it_failed_does_not_renew_its_attempts():
    calls = []

    async def process(element):
        calls.append(element.text)
        yield "made"
        raise Unavailable("not now")

    retry = {"policy": "retry", "max": 2, "backoff": "1ms"}
    stage = (torvyn.processor(process), {"on_error": retry})
    flow = chain((["a"], {}), stage, (CollectingSink(), {}))

    with pytest.raises(Unavailable):
        flow.start().wait(20)
    assert len(calls) == 3


def test_a_generator_on_a_thread_waits_for_room():
    reached = []

    class Many(torvyn.Processor):
        def process(self, element):
            for number in range(100):
                reached.append(number)
                yield str(number)

    class Stalled(torvyn.Sink):
        def push(self, element):
            stalled.set()
            return torvyn.Signal.PAUSE

    stalled = threading.Event()
    flow = chain((["a"], {}), (Many(), {"run": "thread"}), (Stalled(), {})).start()
    assert stalled.wait(20)
    flow.cancel()

    assert flow.wait(20)
    assert len(reached) < 100


@AWAY
def test_a_generator_may_yield_nothing_very_often(run):
    class Quiet(torvyn.Processor):
        def process(self, element):
            yield from [None] * 300_000
            yield "x"

    sink = CollectingSink()
    chain((["a"], {}), (Quiet(), {"run": run}), (sink, {})).start().wait(20)

    assert sink.texts == ["x"]


@pytest.mark.parametrize("seconds", [0, 1e30, float("inf")])
@AWAY
def test_a_source_may_wait_for_no_time_or_for_ever(run, seconds):
    asked = threading.Event()

    class Waiting(torvyn.Source):
        def pull(self):
            asked.set()
            return PENDING.after(seconds)

    flow = chain((Waiting(), {"run": run}), (CollectingSink(), {})).start()
    assert asked.wait(20)
    flow.cancel()

    assert flow.wait(20)
    assert flow.state == "cancelled"


def test_a_flow_cancelled_while_its_components_start_ends():
    class Cancelling(torvyn.Filter):
        def init(self, config):
            flow.cancel()

        def evaluate(self, element):
            return True

    flow = torvyn.Flow(["a"], Cancelling(), CollectingSink())
    flow.start()

    assert flow.wait(20)
    assert flow.state == "cancelled"


def test_a_started_flow_that_nobody_keeps_still_delivers():
    class Late(torvyn.Source):
        def pull(self):
            source.append(self)
            asked.set()
            return PENDING if not go.is_set() else None

    class Last(torvyn.Sink):
        def push(self, element):
            pass

        def complete(self, end):
            done.set()

    source, asked, go, done = [], threading.Event(), threading.Event(), threading.Event()
    torvyn.Flow(Late(), Last()).start()
    assert asked.wait(20)
    gc.collect()
    go.set()
    source[0].wake()

    assert done.wait(20)


def test_a_fed_flow_that_is_dropped_tears_its_stages_down():
    torn = threading.Event()

    class Away(torvyn.Processor):
        def process(self, element):
            return element.text

        def teardown(self):
            torn.set()

    flow = chain((Away(), {"run": "thread"}))
    flow.feed("a")
    del flow
    gc.collect()

    assert torn.wait(20)


def test_a_flow_may_end_inside_its_own_callback():
    async def later(element):
        await asyncio.sleep(0)
        return element.text

    def fetch():
        got.extend(element.text for element in flow.ready())
        if flow.state == "completed":
            done.set()

    got, done = [], threading.Event()
    flow = torvyn.Flow(torvyn.processor(later))
    flow.feed("a")
    flow._execution.native.finish_feed(None)
    flow.on_ready(fetch)

    assert done.wait(20)
    assert got == ["a"]


def test_a_callback_that_fails_does_not_silence_the_others_of_its_loop():
    async def main():
        from torvyn._flow.event_loop import waker_of
        from torvyn._native import Waker

        loop = asyncio.get_running_loop()
        heard, told = asyncio.Event(), []
        loop.set_exception_handler(lambda _, context: told.append(context["exception"]))
        line = waker_of(loop)
        assert isinstance(line.waker, Waker)
        flows = [torvyn.Flow(torvyn.filter(lambda e: True)) for _ in range(2)]
        broken = line.register(lambda: 1 / 0)
        good = line.register(heard.set)
        for flow, token in zip(flows, (broken, good), strict=True):
            native = flow._feed_target()[1]
            native.drive_from_loop(line.waker, token)
            native.wake()
        await asyncio.wait_for(heard.wait(), 20)
        line.unregister(broken)
        line.unregister(good)
        return told

    assert [type(error) for error in asyncio.run(main())] == [ZeroDivisionError]


def test_large_items_that_fit_one_by_one_are_all_taken():
    flow = torvyn.Flow(torvyn.filter(lambda element: True))
    items = [str(number) * 600_000 for number in range(4)]

    assert [element.text for element in flow.feed(items)] == items
    assert flow.statistics.live == 0


def test_of_a_batch_with_a_wrong_item_nothing_is_taken():
    flow = torvyn.Flow(torvyn.filter(lambda element: True))

    with pytest.raises(ContractError):
        flow.feed(["a", 5])

    assert [element.text for element in flow.feed(["a", "b"])] == ["a", "b"]


def test_what_a_failed_flow_sent_to_a_loop_is_released():
    def judge(element):
        if element.text == "20":
            raise Internal("no")
        return True

    async def main():
        flow = torvyn.Flow(CountingSource(30), torvyn.filter(judge))
        got = []
        with pytest.raises(Internal):
            async for element in flow:
                got.append(element.text)
        return flow, got

    flow, got = asyncio.run(main())
    assert got == [str(number) for number in range(20)]
    assert flow.statistics.live == 0
