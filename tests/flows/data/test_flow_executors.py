"""One procedure for stages on threads, on loops and in a simulation: the same answers in each."""

import asyncio

import pytest
from stepped_runs import run_stepped

import torvyn
from torvyn.errors import ContractError, Internal, InvalidInput
from torvyn.testing import Clock, CollectingSink, ScriptedSource

HOSTS = ("thread", "async", "stepped thread", "stepped async")
ANY_HOST = pytest.mark.parametrize("host", HOSTS)


def run(host, *nodes):
    """Runs a chain of `(component, options)`; None as run mode leaves a node inline."""
    flow = torvyn.Flow(clock=Clock() if host.startswith("stepped") else None)
    for number, (component, options) in enumerate(nodes):
        flow.add(f"n{number}", component, **options)
        if number:
            flow.connect(f"n{number - 1}", f"n{number}")
    if host.startswith("stepped"):
        run_stepped(flow)
    else:
        flow.run()
    return flow


def is_async(host):
    return host.endswith("async")


def pulling(host, pull):
    """A source of the host's kind."""

    class Pulled(torvyn.Source):
        run = "thread"

        def pull(self):
            return pull()

    class Awaited(torvyn.Source):
        async def pull(self):
            await asyncio.sleep(0)
            return pull()

    return Awaited() if is_async(host) else Pulled()


def iterating(host, items):
    class Iterated(torvyn.Source):
        run = "thread"

        def __iter__(self):
            return iter(items)

    class IteratedLater(torvyn.Source):
        async def __aiter__(self):
            for item in items:
                await asyncio.sleep(0)
                yield item

    return IteratedLater() if is_async(host) else Iterated()


# Sources


@ANY_HOST
def test_a_pull_that_raises_stop_iteration_has_failed(host):
    items, sink = iter(["a", "b"]), CollectingSink()

    def pull():
        try:
            return next(items)
        except StopIteration:
            raise (StopAsyncIteration if is_async(host) else StopIteration) from None

    with pytest.raises(Internal, match=r"`n0` failed in `pull`: Stop(Async)?Iteration"):
        run(host, (pulling(host, pull), {}), (sink, {}))
    assert sink.end is None


@ANY_HOST
def test_none_from_an_iterator_is_an_error_that_names_its_position(host):
    sink = CollectingSink()

    with pytest.raises(
        ContractError, match="yielded None as item 3; None is not an element"
    ) as raised:
        run(host, (iterating(host, ["a", "b", "c", None, "d"]), {}), (sink, {}))
    assert raised.value.code == "contract.wrong-result"
    assert sink.end is None


@ANY_HOST
def test_an_iterator_ends_with_its_own_end(host):
    sink = CollectingSink()

    run(host, (iterating(host, ["a", torvyn.End("length"), "b"]), {}), (sink, {}))

    assert (sink.texts, sink.end) == (["a"], torvyn.End("length"))


# Processors


def emitting(host, items):
    class Emitting(torvyn.Processor):
        run = "thread"

        def process(self, element):
            yield from items(element)

        def flush(self):
            yield from ("x", None, "y")

    class EmittingLater(torvyn.Processor):
        async def process(self, element):
            for item in items(element):
                await asyncio.sleep(0)
                yield item

        async def flush(self):
            for item in ("x", None, "y"):
                yield item

    return EmittingLater() if is_async(host) else Emitting()


@ANY_HOST
def test_what_a_generator_yields_is_emitted_and_none_is_nothing(host):
    stage = emitting(host, lambda element: [element.text, None, element.text * 2])
    sink = CollectingSink()

    run(host, (["a", "b"], {}), (stage, {}), (sink, {}))

    assert sink.texts == ["a", "aa", "b", "bb", "x", "y"]


@ANY_HOST
def test_a_flush_may_be_a_generator(host):
    class Held(torvyn.Aggregator):
        run = None if is_async(host) else "thread"

        def flush(self):
            return (text for text in ("x", "y"))

    async def ingest_later(element):
        return None

    held, sink = Held(), CollectingSink()
    held.ingest = ingest_later if is_async(host) else lambda element: None

    run(host, (["a"], {}), (held, {}), (sink, {}))

    assert sink.texts == ["x", "y"]


# Streams


def streaming(host, judge, last=None):
    """Yields what `judge` makes of each element, then what `last` makes."""

    def stream(elements):
        for element in elements:
            yield judge(element.text)
        if last is not None:
            yield last()

    async def stream_later(elements):
        async for element in elements:
            await asyncio.sleep(0)
            yield judge(element.text)
        if last is not None:
            yield last()

    return torvyn.stream(stream_later if is_async(host) else stream)


def refuse_b(text):
    if text == "b":
        raise InvalidInput("no b")
    return text.upper()


@ANY_HOST
def test_a_stream_that_raises_fails_the_element_in_its_hand(host):
    with pytest.raises(InvalidInput, match="failed in `process` on element 1: no b") as caught:
        run(host, (list("abc"), {}), (streaming(host, refuse_b), {}), (CollectingSink(), {}))

    assert (caught.value.node, caught.value.sequence) == ("n1", 1)


@ANY_HOST
def test_a_stream_starts_again_after_an_element_that_is_skipped(host):
    sink = CollectingSink()
    stage = (streaming(host, refuse_b), {"on_error": "skip"})

    flow = run(host, (list("abcbd"), {}), stage, (sink, {}))

    assert sink.texts == ["A", "C", "D"]
    counted = flow.statistics.nodes["n1"]
    assert (counted.received, counted.failed, counted.emitted) == (5, 2, 3)


@ANY_HOST
def test_a_stream_is_given_an_element_again_under_retry(host):
    attempts = []

    def judge(text):
        attempts.append(text)
        if attempts.count("b") == 1 and text == "b":
            raise torvyn.Unavailable("not yet")
        return text.upper()

    sink = CollectingSink()
    retry = {"policy": "retry", "max": 2, "backoff": "1ms"}
    stage = (streaming(host, judge), {"on_error": retry})

    flow = run(host, (list("abc"), {}), stage, (sink, {}))

    assert attempts == ["a", "b", "b", "c"]
    assert sink.texts == ["A", "B", "C"]
    assert flow.statistics.nodes["n1"].retried == 1


@ANY_HOST
def test_a_stream_that_raises_after_its_input_fails_in_flush(host):
    def last():
        raise InvalidInput("no end")

    stage = streaming(host, str.upper, last)

    with pytest.raises(InvalidInput, match="failed in `flush`: no end"):
        run(host, (["a"], {}), (stage, {}), (CollectingSink(), {}))


@ANY_HOST
def test_a_stream_that_raises_before_its_first_element_fails_in_flush(host):
    def broken(elements):
        raise InvalidInput("no start")
        yield

    async def broken_later(elements):
        raise InvalidInput("no start")
        yield

    stage = torvyn.stream(broken_later if is_async(host) else broken)

    with pytest.raises(InvalidInput, match="no start"):
        run(host, (["a"], {}), (stage, {}), (CollectingSink(), {}))


@ANY_HOST
def test_a_stream_that_returns_early_has_read_what_it_has_read(host):
    def first_two(elements):
        for number, element in enumerate(elements):
            yield element.text
            if number == 1:
                return

    async def first_two_later(elements):
        number = 0
        async for element in elements:
            yield element.text
            number += 1
            if number == 2:
                return

    sink = CollectingSink()
    stage = torvyn.stream(first_two_later if is_async(host) else first_two)

    flow = run(host, (list("abcd"), {}), (stage, {}), (sink, {}))

    assert sink.texts == ["a", "b"]
    assert flow.statistics.nodes["n1"].received == 2


# The simulation's host


def test_the_same_seed_steps_in_the_same_order():
    async def later(element):
        await asyncio.sleep(0)
        return element.text

    class OnThread(torvyn.Processor):
        run = "thread"

        def process(self, element):
            return element.text + "!"

    def once(seed):
        sink, clock = CollectingSink(), Clock()
        source = ScriptedSource([str(number) for number in range(30)])
        flow = torvyn.Flow(
            source, torvyn.processor(later), OnThread(), sink, clock=clock, queue_depth=4
        )
        return run_stepped(flow, seed).order, sink.texts

    expected = [f"{number}!" for number in range(30)]
    assert once(1) == once(1)
    assert {tuple(once(seed)[1]) for seed in range(20)} == {tuple(expected)}
    assert once(1)[0] != once(2)[0]


def test_a_stepped_call_is_cut_by_the_clock_that_is_moved_by_hand():
    class Stuck(torvyn.Processor):
        async def process(self, element):
            if element.text == "b":
                await steps[0].sleep(3600)
            return element.text

    steps, sink = [], CollectingSink()
    flow = torvyn.Flow(clock=Clock()).add("source", list("abc"))
    flow.add("stage", Stuck(), call_timeout_s=5, on_error="skip").add("sink", sink)
    flow.connect("source", "stage").connect("stage", "sink")

    from stepped_runs import SteppedRun

    stepped = SteppedRun(flow)
    steps.append(stepped.scheduler)
    stepped.go()

    assert sink.texts == ["a", "c"]
    assert flow.statistics.nodes["stage"].failed == 1


@pytest.mark.parametrize("kind", ["thread", "async"])
def test_a_stepped_flow_that_is_cancelled_tears_down(kind):
    torn = []

    class Endless(torvyn.Source):
        run = kind

        def pull(self):
            return "x"

        def teardown(self):
            torn.append("source")

    class EndlessLater(Endless):
        async def pull(self):
            return "x"

        async def teardown(self):
            torn.append("source")

    source = EndlessLater() if kind == "async" else Endless()
    taken = []

    def push(element):
        taken.append(element.text)
        if len(taken) == 10:
            flow.cancel()

    flow = torvyn.Flow(source, torvyn.sink(push), clock=Clock())

    run_stepped(flow)

    assert flow.state == "cancelled"
    assert torn == ["source"]
    assert flow.statistics.live == 0
