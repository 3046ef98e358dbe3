"""Flows with `nats` edges, whole or in parts, and what they are made of."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import torvyn


class Sum(torvyn.Processor):
    """Adds up numbers, and saves the sum."""

    def __init__(self) -> None:
        super().__init__()
        self.sum = 0

    def process(self, element: torvyn.Element) -> str:
        self.sum += int(element.text)
        return str(self.sum)

    def snapshot(self) -> int:
        return self.sum

    def restore(self, state: int) -> None:
        self.sum = state


class Collected(torvyn.Sink):
    """Collects what it gets, once per epoch and sequence number."""

    run = "thread"

    def __init__(self, seen: dict[Any, str] | None = None) -> None:
        super().__init__()
        self.seen: dict[Any, str] = {} if seen is None else seen
        self.gate = threading.Event()
        self.gate.set()

    def push(self, element: torvyn.Element) -> None:
        self.gate.wait(30)
        context = element.context
        assert context is not None
        self.seen.setdefault((context.epoch, element.sequence), element.text)

    @property
    def texts(self) -> list[str]:
        return list(self.seen.values())


def chain(*parts: tuple[str, Any], name: str = "main", **options: Any) -> torvyn.Flow:
    """A chain whose edges are all `nats` edges."""
    flow = torvyn.Flow(name=name)
    for node, component in parts:
        flow.add(node, component)
    for (source, _), (target, _) in pairwise(parts):
        flow.connect(source, target, carrier="nats", **options)
    return flow


def part(flow: torvyn.Flow, *segments: str, replica: int = 0, run: str = "") -> torvyn.Flow:
    """The flow, of which only these segments run here."""
    plan = flow.plan
    assert plan.cluster is not None
    cluster = replace(plan.cluster, segments=segments, replica=replica, run=run)
    return torvyn.Flow.from_plan(replace(plan, cluster=cluster))


def texts(count: int) -> list[str]:
    return [str(number) for number in range(count)]


def sums(count: int) -> list[str]:
    return [str(number * (number + 1) // 2) for number in range(count)]


def check_account(flow: torvyn.Flow) -> None:
    for edge in flow.statistics.edges:
        assert edge.entered == edge.taken + edge.dropped + edge.unread, edge
        assert min(edge.entered, edge.taken, edge.dropped, edge.unread) >= 0, edge


def wait_until(condition: Callable[[], bool], timeout_s: float = 20) -> None:
    end_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end_s, "the condition did not become true"
        time.sleep(0.005)


def run_parts(flows: Iterable[torvyn.Flow]) -> None:
    """Runs flows at the same time, to their ends."""
    running = [flow.start() for flow in flows]
    for flow in running:
        assert flow.wait(60)
        check_account(flow)
