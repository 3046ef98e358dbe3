"""A flow on a NATS cluster of three servers, one of which is lost while elements move."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import threading
import time
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import torvyn
from nats_server import NatsCluster

BEFORE = 100
"""Elements that have arrived when the server is lost."""
AFTER_S = 5.0
"""How long elements move after the others have a leader."""
PATIENCE_S = 60.0
SIGNALS = {"kill": signal.SIGKILL, "freeze": signal.SIGSTOP, "stop": signal.SIGTERM}


class FailOver(NamedTuple):
    pause_s: float
    """From the loss of the server to the next element, if that is the longest pause behind it."""
    election_s: float
    """From the loss of the server until the others could do what the flow needs."""
    wrong: int
    """Outputs that are lost, repeated or out of order."""
    leads: bool
    """Whether it led a stream of the flow."""

    @property
    def added_s(self) -> float:
        """What came on top of the election."""
        return max(self.pause_s - self.election_s, 0.0)


class Numbers(torvyn.Source):
    """A number every few milliseconds, until it is told to end."""

    def __init__(self) -> None:
        super().__init__()
        self.turns = 0
        self.is_over = False

    def pull(self) -> object:
        if self.is_over:
            return None
        self.turns += 1
        return torvyn.PENDING.after(0.005) if self.turns % 2 else str(self.turns // 2)


class Count(torvyn.Processor):
    """Adds how many elements it has seen, which it saves."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def process(self, element: torvyn.Element) -> str:
        self.count += 1
        return f"{element.text} {self.count}"

    def snapshot(self) -> int:
        return self.count

    def restore(self, state: int) -> None:
        self.count = state


class Arrivals(torvyn.Sink):
    run = "thread"

    def __init__(self) -> None:
        super().__init__()
        self.at_s: list[float] = []
        self.texts: list[str] = []

    def push(self, element: torvyn.Element) -> None:
        self.at_s.append(time.monotonic())
        self.texts.append(element.text)


def fail_over(folder: Path, victim: str, how: str, *, has_state: bool) -> FailOver:
    """`victim`: `leader`, the server that leads the first edge, or `other`, one that leads none."""
    with ExitStack() as stack:
        cluster = stack.enter_context(NatsCluster(_free_ports(), folder))
        source, sink = Numbers(), Arrivals()
        flow = _flow(cluster.url, folder, source, sink, has_state=has_state).start()
        _wait_until(lambda: len(sink.texts) >= BEFORE)
        streams = ["TV_f_main_a-output-sum", "TV_f_main_sum-output-b", "KV_tv_f_main"]
        streams = streams if has_state else ["TV_f_main_a-output-b"]
        leaders = [cluster.leader_of(stream) for stream in streams]
        others = [number for number in range(3) if number not in leaders]
        lost = leaders[0] if victim == "leader" or not others else others[0]
        assert lost is not None
        lost_s = time.monotonic()
        cluster.servers[lost].send(SIGNALS[how])
        if how == "freeze":
            stack.callback(cluster.servers[lost].send, signal.SIGCONT)
        rest = [each.url for number, each in enumerate(cluster.servers) if number != lost]
        led_s = _led_at_s(rest, f"n{lost}", streams)
        _wait_until(lambda: sink.at_s[-1] > led_s + AFTER_S)
        source.is_over = True
        assert flow.wait(PATIENCE_S), "the flow does not end"
        pause_s = _longest_pause_s(sink.at_s, lost_s)
        wrong = _wrong(sink.texts, source.turns // 2, has_state=has_state)
        return FailOver(pause_s, led_s - lost_s, wrong, lost in leaders)


def _flow(
    url: str, folder: Path, source: Numbers, sink: Arrivals, *, has_state: bool
) -> torvyn.Flow:
    os.environ["TORVYN_CLUSTER__NATS"] = url
    os.environ["TORVYN_CLUSTER__NAMESPACE"] = "f"
    os.environ["TORVYN_CLUSTER__STREAM_REPLICAS"] = "3"
    try:
        flow = torvyn.Flow(name="main").add("a", source).add("b", sink)
        if has_state:
            flow.add("sum", Count()).connect("a", "sum", carrier="nats")
            flow.connect("sum", "b", carrier="nats")
        else:
            flow.connect("a", "b", carrier="nats")
        assert flow.plan
        return flow
    finally:
        for name in ("NATS", "NAMESPACE", "STREAM_REPLICAS"):
            del os.environ[f"TORVYN_CLUSTER__{name}"]


def _longest_pause_s(at_s: list[float], lost_s: float) -> float:
    """The end of the longest pause, from the loss of the server on."""
    behind = [lost_s, *(each for each in at_s if each > lost_s)]
    length_s, end_s = max((b - a, b) for a, b in pairwise(behind))
    return end_s - lost_s if length_s > 0.5 else length_s


def _wrong(texts: list[str], count: int, *, has_state: bool) -> int:
    numbers = range(1, count + 1)
    expected = [f"{number} {number}" if has_state else str(number) for number in numbers]
    differing = sum(a != b for a, b in zip(texts, expected, strict=False))
    return differing + abs(len(texts) - len(expected))


def _led_at_s(urls: list[str], lost: str, streams: list[str]) -> float:
    """When the others have a leader for each stream, and can make a consumer."""
    return asyncio.run(asyncio.wait_for(_wait_for_leaders(urls, lost, streams), PATIENCE_S))


async def _wait_for_leaders(urls: list[str], lost: str, streams: list[str]) -> float:
    import nats

    async def ignore(_: Exception) -> None:
        pass

    client = await nats.connect(urls, error_cb=ignore)
    js: Any = client.jetstream(timeout=0.3)
    missing = set(streams)
    try:
        while missing:
            for stream in sorted(missing):
                try:
                    leader = (await js.stream_info(stream)).cluster.leader
                    config = nats.js.api.ConsumerConfig(num_replicas=1, mem_storage=True)
                    if leader and leader != lost:
                        await js.add_consumer(stream, config)
                        missing.discard(stream)
                except (OSError, nats.errors.Error):
                    await asyncio.sleep(0.01)
        return time.monotonic()
    finally:
        await client.close()


def _wait_until(condition: Any) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end_s, "elements do not move"
        threading.Event().wait(0.02)


def _free_ports() -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(6)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports
