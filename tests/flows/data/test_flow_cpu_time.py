"""The CPU time of nodes: who uses it, whatever thread or loop it runs on."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

import torvyn
from torvyn.concurrency.cpu_time import ThreadCpuTime, TimedCoroutine

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
