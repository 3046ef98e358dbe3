"""A source that asks for acknowledgements gets them in order, once its elements are settled."""

from __future__ import annotations

import asyncio
import random
import threading
from typing import Any

import pytest

import torvyn
from torvyn import PENDING, Element, Verdict


class NumberSource(torvyn.Source):
    """Produces numbers, and remembers how many were acknowledged at each call."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count
        self.sent = 0
        self.acknowledged = 0
        self.torn_down_after: int | None = None

    def pull(self) -> str | None:
        if self.sent == self.count:
            return None
        self.sent += 1
        return str(self.sent - 1)

    def acknowledge(self, count: int) -> None:
        assert count > 0
        assert self.acknowledged + count <= self.sent
        self.acknowledged += count

    def teardown(self) -> None:
        self.torn_down_after = self.acknowledged


class ThreadNumbers(NumberSource):
    run = "thread"


class AsyncNumbers(NumberSource):
    async def pull(self) -> str | None:  # type: ignore[override]
        return NumberSource.pull(self)


class WatchingSink(torvyn.Sink):
    """Notes how many elements its source had been told about before each push."""

    def __init__(self, source: NumberSource) -> None:
        super().__init__()
        self.source = source
        self.pushed: list[tuple[int, int]] = []

    def push(self, element: Element) -> None:
        self.pushed.append((int(element.text), self.source.acknowledged))


def ignore(element: Element) -> None:
    pass


SOURCES = (NumberSource, ThreadNumbers, AsyncNumbers)


@pytest.mark.parametrize("kind", SOURCES)
def test_every_delivered_element_is_acknowledged_before_teardown(kind: Any) -> None:
    source = kind(1000)
    torvyn.Flow(source, WatchingSink(source)).run()
    assert source.torn_down_after == 1000


@pytest.mark.parametrize("kind", SOURCES)
def test_no_element_is_acknowledged_before_the_sink_has_it(kind: Any) -> None:
    source = kind(500)
    sink = WatchingSink(source)
    torvyn.Flow(source, sink).run()
    assert all(acknowledged <= number for number, acknowledged in sink.pushed)


def test_filtered_elements_are_acknowledged() -> None:
    source = NumberSource(100)
    torvyn.Flow(source, torvyn.filter(lambda e: int(e.text) % 10 == 0), torvyn.sink(ignore)).run()
    assert source.acknowledged == 100


def test_a_processor_s_outputs_must_all_be_delivered() -> None:
    source = NumberSource(3)
    sink = WatchingSink(source)
    torvyn.Flow(source, torvyn.processor(lambda e: [e.text] * 5), sink).run()
    assert all(acknowledged <= number for number, acknowledged in sink.pushed)
    assert source.acknowledged == 3


class FirstOfFour(torvyn.Aggregator):
    def __init__(self) -> None:
        super().__init__()
        self.waiting: list[int] = []

    def ingest(self, element: Element) -> str | None:
        self.waiting.append(int(element.text))
        if len(self.waiting) < 4:
            return None
        first, self.waiting = self.waiting[0], []
        return str(first)

    def held_elements(self) -> int:
        return len(self.waiting)


def test_aggregated_elements_are_acknowledged_with_their_aggregate() -> None:
    source = NumberSource(12)
    sink = WatchingSink(source)
    torvyn.Flow(source, FirstOfFour(), sink).run()
    # Each aggregate names the first of its four elements.
    assert all(acknowledged <= first for first, acknowledged in sink.pushed)
    assert source.acknowledged == 12


def test_a_failed_element_and_those_after_it_are_not_acknowledged() -> None:
    source = NumberSource(100)

    def push(element: Element) -> None:
        if element.text == "7":
            raise RuntimeError("no")

    with pytest.raises(torvyn.TorvynError):
        torvyn.Flow(source, torvyn.sink(push)).run()
    assert source.acknowledged == 7


def test_skipped_and_dead_lettered_elements_are_acknowledged() -> None:
    source = NumberSource(20)

    def push(element: Element) -> None:
        raise ValueError("bad")

    flow = torvyn.Flow()
    flow.add("in", source)
    flow.add("out", torvyn.sink(push), on_error="skip")
    flow.connect("in", "out")
    flow.run()
    assert source.acknowledged == 20


def test_held_elements_wait_for_the_verdict() -> None:
    source = NumberSource(10)
    sink = WatchingSink(source)

    def evaluate(element: Element) -> Verdict:
        return Verdict.PASS if int(element.text) % 5 == 4 else Verdict.hold()

    torvyn.Flow(source, torvyn.filter(evaluate), sink).run()
    assert source.acknowledged == 10
    assert all(acknowledged <= number for number, acknowledged in sink.pushed)


def test_what_the_reader_left_is_never_acknowledged() -> None:
    source = NumberSource(10**9)
    flow = torvyn.Flow(source)
    for element in flow:
        if element.text == "4":
            break
    assert flow.statistics.state == "cancelled"
    assert source.torn_down_after == source.acknowledged <= 5


class IdleAfterwards(torvyn.Source):
    """Produces three elements, then waits until they are acknowledged."""

    def __init__(self) -> None:
        super().__init__()
        self.left = 3
        self.acknowledged = threading.Semaphore(0)
        self.settled = 0

    def acknowledge(self, count: int) -> None:
        self.settled += count
        if self.settled == 3:
            self.acknowledged.release()
            self.wake()

    def pull(self) -> Any:
        if self.left:
            self.left -= 1
            return "x"
        return None if self.settled == 3 else PENDING


class AsyncIdle(IdleAfterwards):
    def init(self, config: str) -> None:
        self.all_settled = asyncio.Event()

    def acknowledge(self, count: int) -> None:
        self.settled += count
        if self.settled == 3:
            self.all_settled.set()

    async def pull(self) -> Any:  # type: ignore[override]
        if self.left:
            self.left -= 1
            return "x"
        await self.all_settled.wait()
        return None


@pytest.mark.parametrize("kind", [IdleAfterwards, AsyncIdle])
def test_a_source_that_has_nothing_to_send_is_told_at_once(kind: Any) -> None:
    source = kind()
    torvyn.Flow(source, torvyn.sink(ignore)).run()
    assert source.settled == 3


@pytest.mark.parametrize("seed", range(60))
def test_acknowledgements_are_the_settled_prefix_of_random_flows(seed: int) -> None:
    rng = random.Random(seed)
    source = rng.choice(SOURCES)(rng.randrange(200))
    fate: dict[int, str] = {}
    fails_at = rng.choice([None, rng.randrange(200)])

    def judge(element: Element) -> bool:
        return rng.random() < 0.7

    def expand(element: Element) -> list[str]:
        return [element.text] * rng.randrange(3)

    def push(element: Element) -> None:
        if fails_at is not None and int(element.text) == fails_at:
            fate[fails_at] = "failed"
            raise RuntimeError("down")

    flow = torvyn.Flow(
        source, torvyn.filter(judge), torvyn.processor(expand), torvyn.sink(push), queue_depth=4
    )
    try:
        flow.run()
    except torvyn.TorvynError:
        assert source.acknowledged == fails_at
    else:
        assert source.acknowledged == source.sent == source.count
