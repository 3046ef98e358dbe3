"""A flow whose middle has a state per key, and as many replicas as a test wants."""

from __future__ import annotations

import json
from typing import Any

from nats_parts import Collected, part, wait_until

import torvyn

KEYS = 7


class Numbers(torvyn.Source):
    """Sends numbers from `first` on, and ends when it is told to."""

    def __init__(self, count: int, first: int = 0, *, is_ending: bool = True) -> None:
        super().__init__()
        self.next, self.count, self.is_ending = first, first + count, is_ending

    def pull(self) -> object:
        if self.next < self.count:
            self.next += 1
            number = self.next - 1
            return json.dumps({"key": f"k{number % KEYS}", "number": number})
        return None if self.is_ending else torvyn.PENDING.after(0.01)


class Sum(torvyn.Processor):
    def __init__(self) -> None:
        super().__init__()
        self.sum = 0

    def process(self, element: torvyn.Element) -> str:
        fields = json.loads(element.text)
        self.sum += fields["number"]
        return json.dumps([fields["key"], self.sum])

    def snapshot(self) -> int:
        return self.sum

    def restore(self, state: int) -> None:
        self.sum = state


def keyed(source: Numbers, sink: Collected, replicas: int) -> torvyn.Flow:
    place: Any = {"replicas": replicas}
    flow = torvyn.Flow(name="main")
    flow.add("read", source).add("sum", Sum, key="key", place=place).add("write", sink)
    return flow.connect("read", "sum", carrier="nats").connect("sum", "write", carrier="nats")


def expected(count: int, first: int = 0) -> list[list[object]]:
    """What the flow delivers, sorted."""
    sums: dict[str, int] = {}
    found: list[list[object]] = []
    for number in range(first, first + count):
        key = f"k{number % KEYS}"
        sums[key] = sums.get(key, 0) + number
        found.append([key, sums[key]])
    return sorted(found, key=str)


def delivered(sink: Collected) -> list[list[object]]:
    return sorted(map(json.loads, sink.texts), key=str)


def sum_parts(flow: torvyn.Flow, replicas: int) -> list[torvyn.Flow]:
    return [part(flow, "sum", replica=at) for at in range(replicas)]


def run_and_stop(count: int, sink: Collected, replicas: int) -> None:
    """Sums numbers up, and stops in the middle of the stream with everything read."""
    flow = keyed(Numbers(count, is_ending=False), sink, replicas)
    parts = [part(flow, "write"), *sum_parts(flow, replicas), part(flow, "read")]
    running = [each.start() for each in parts]
    wait_until(lambda: len(sink.texts) == count)
    for each in reversed(running):
        each.drain()
        assert each.wait(30)
