"""The CPU time of nodes: who uses it, whatever thread or loop it runs on."""

from __future__ import annotations

import asyncio
import re
import threading
import time

import pytest

import torvyn
from torvyn._cli.statistics import statistics_tables
from torvyn._flow.cpu_time import ThreadCpuTime, TimedCoroutine

SPIN_NS = 2_000_000
COUNT = 50


def spin() -> None:
    """Uses the CPU for some time of this thread, however busy the machine is."""
    end_ns = time.thread_time_ns() + SPIN_NS
    while time.thread_time_ns() < end_ns:
        pass


class Spinning(torvyn.Sink):
    def push(self, element: torvyn.Element) -> None:
        spin()


class SpinningThread(Spinning):
    run = "thread"


class SpinningAsync(torvyn.Sink):
    async def push(self, element: torvyn.Element) -> None:
        spin()
        await asyncio.sleep(0)


class Sleeping(torvyn.Sink):
    run = "thread"

    def push(self, element: torvyn.Element) -> None:
        time.sleep(SPIN_NS / 1e9)


@pytest.mark.parametrize("sink", [Spinning, SpinningThread, SpinningAsync])
def test_the_busy_node_is_named(sink: type[torvyn.Sink]) -> None:
    flow = torvyn.Flow([str(number) for number in range(COUNT)], sink())
    statistics = flow.run()

    spent_ns = statistics.nodes["sink"].cpu_ns or 0
    assert spent_ns >= COUNT * SPIN_NS / 2
    assert (statistics.nodes["source"].cpu_ns or 0) < spent_ns / 10
    assert statistics.to_dict()["cpu_ns"] == statistics.cpu_ns >= spent_ns


class SlowAtFirst(torvyn.Sink):
    """Its first turn, which is sampled, takes much longer than those after it."""

    def init(self, config: str) -> None:
        self.left = 32

    def push(self, element: torvyn.Element) -> None:
        if self.left:
            self.left -= 1
            time.sleep(0.001)


class SlowAtFirstAsync(SlowAtFirst):
    async def push(self, element: torvyn.Element) -> None:  # type: ignore[override]
        super().push(element)


@pytest.mark.parametrize("sink", [SlowAtFirst, SlowAtFirstAsync])
def test_one_thread_uses_no_more_than_all_of_its_cpu(sink: type[torvyn.Sink]) -> None:
    statistics = torvyn.Flow(["x"] * 5000, sink()).run()

    assert 0 < statistics.cpu_ns <= statistics.elapsed_s * 1e9
    shares = [line.split()[2] for line in budget_rows(statistics)]
    assert all(share == "-" or float(share.rstrip("%")) <= 100 for share in shares)


def budget_rows(statistics: torvyn.Statistics) -> list[str]:
    table = next(each for each in statistics_tables(statistics).split("\n\n") if "CPU" in each)
    return [re.sub(r"(\d) (n|u|m)?s", r"\1\2s", line) for line in table.splitlines()[1:]]


def test_a_thread_that_waits_uses_no_cpu_time() -> None:
    statistics = torvyn.Flow(["x"] * COUNT, Sleeping()).run()

    assert (statistics.nodes["sink"].cpu_ns or 0) < COUNT * SPIN_NS / 2


def test_the_time_of_a_running_thread_grows() -> None:
    clock, begun, ended = ThreadCpuTime(), threading.Event(), threading.Event()

    def work() -> None:
        clock.start()
        spin()
        begun.set()
        ended.wait()
        spin()
        clock.stop()

    thread = threading.Thread(target=work)
    assert clock.read_ns() is None
    thread.start()
    begun.wait()
    first_ns = clock.read_ns() or 0
    ended.set()
    thread.join()

    assert SPIN_NS <= first_ns <= (clock.read_ns() or 0) - SPIN_NS


def test_a_timed_coroutine_runs_as_the_original_does() -> None:
    async def work() -> str:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            await asyncio.sleep(0)
        return "cleaned up"

    async def main() -> str:
        task = asyncio.create_task(TimedCoroutine(work()))
        await asyncio.sleep(0)
        task.cancel()
        return await task

    assert asyncio.run(main()) == "cleaned up"
