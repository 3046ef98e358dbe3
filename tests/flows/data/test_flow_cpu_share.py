"""`cpu_share`: a flow that uses more than its share is slowed at its sources, and loses nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

import torvyn
from torvyn._flow.cpu_throttle import BURST_S, CHECK_S, FLOW, CpuThrottle
from torvyn.errors import LinkError

SPIN_NS = 5_000_000
COUNT = 40
SHARE = 0.25


class Numbers(torvyn.Source):
    def __init__(self) -> None:
        self.count = 0

    def pull(self) -> str | None:
        self.count += 1
        return str(self.count) if self.count <= COUNT else None


class NumbersOnThread(Numbers):
    run = "thread"


class NumbersAsync(Numbers):
    async def pull(self) -> str | None:  # type: ignore[override]
        return super().pull()


class Iterated(torvyn.Source):
    def __iter__(self) -> Iterator[str]:
        return iter([str(number + 1) for number in range(COUNT)])


class Spinning(torvyn.Sink):
    def __init__(self) -> None:
        self.got: list[str] = []

    def push(self, element: torvyn.Element) -> None:
        end_ns = time.thread_time_ns() + SPIN_NS
        while time.thread_time_ns() < end_ns:
            pass
        self.got.append(element.text)


@pytest.mark.parametrize("source", [Numbers, NumbersOnThread, NumbersAsync, Iterated])
@pytest.mark.parametrize("is_of_node", [False, True], ids=["flow", "node"])
def test_a_busy_flow_takes_as_long_as_its_share_allows(
    source: type[torvyn.Source], is_of_node: bool
) -> None:
    sink = Spinning()
    flow = torvyn.Flow(cpu_share=None if is_of_node else SHARE)
    flow.add("numbers", source()).connect("numbers", "busy", queue_depth=1)
    flow.add("busy", sink, cpu_share=SHARE if is_of_node else None)

    statistics = flow.run()

    assert sink.got == [str(number + 1) for number in range(COUNT)]
    # The last elements are already inside when the source is delayed for them.
    assert statistics.elapsed_s > COUNT * SPIN_NS / 1e9 / SHARE / 2
    assert statistics.nodes["numbers"].throttled_s > 0


class Meter:
    """A clock and a CPU that are moved by hand."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.cpu_ns = {"a": 0, "b": 0}

    def use(self, node: str, seconds: float) -> None:
        self.now_s += seconds
        self.cpu_ns[node] += round(seconds * 1e9)

    def throttle(self, **shares: float) -> CpuThrottle:
        named = {FLOW if name == "flow" else name: share for name, share in shares.items()}
        return CpuThrottle(named, lambda: self.cpu_ns, lambda: self.now_s)


def test_the_delay_makes_up_for_what_was_used() -> None:
    meter = Meter()
    throttle = meter.throttle(flow=0.5)
    meter.use("a", 0.2)
    delay_s = throttle.delay_s()

    # 0.2 s were used and half of the time since the start was allowed, with a bounded credit.
    assert delay_s == pytest.approx((0.2 - BURST_S * 0.5) / 0.5)
    meter.now_s += delay_s
    assert throttle.delay_s() == 0.0
    assert throttle.delayed_s == pytest.approx(delay_s)


def test_what_an_idle_flow_saves_is_bounded() -> None:
    meter = Meter()
    throttle = meter.throttle(flow=0.5)
    meter.now_s += 3600
    assert throttle.delay_s() == 0.0
    meter.use("a", 1.0)

    assert throttle.delay_s() == pytest.approx(1.0)  # the longest delay at once


def test_a_node_is_judged_by_its_own_time() -> None:
    meter = Meter()
    throttle = meter.throttle(b=0.5)
    meter.use("a", 10.0)
    assert throttle.delay_s() == 0.0
    meter.use("b", 0.2)

    assert throttle.delay_s() > 0


def test_shares_are_not_checked_for_every_element() -> None:
    meter = Meter()
    throttle = meter.throttle(flow=0.001)
    meter.use("a", CHECK_S * 0.9)

    assert throttle.delay_s() == 0.0


def test_a_share_needs_a_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORVYN_OBSERVABILITY__LEVEL", "off")

    with pytest.raises(LinkError, match="its CPU time is not measured"):
        torvyn.Flow(Numbers(), Spinning(), cpu_share=0.5).run()


@pytest.mark.parametrize("share", [0, -1, "much"])
def test_a_share_is_a_positive_number(share: object) -> None:
    with pytest.raises(LinkError, match="cpu_share"):
        torvyn.Flow(Numbers(), Spinning(), cpu_share=share).run()  # type: ignore[arg-type]


def test_the_budgets_of_nodes_must_fit_into_that_of_the_flow() -> None:
    mebibyte = 1024 * 1024
    # 64 MiB each, and a queue of 1 MiB.
    assert torvyn.Flow(Numbers(), Spinning(), max_memory_bytes=129 * mebibyte).plan

    with pytest.raises(LinkError, match="may use 129 MiB, more than its `max_memory` of 128 MiB"):
        _ = torvyn.Flow(Numbers(), Spinning(), max_memory_bytes=128 * mebibyte).plan
