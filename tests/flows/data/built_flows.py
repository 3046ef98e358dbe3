"""A program: builds random graphs, several of each, and prints what the native part of each takes.

    python built_flows.py SEED GRAPHS

One line per graph, as JSON: its nodes, what its flows say, and what the allocator gave out.
"""

from __future__ import annotations

import json
import random
import statistics
import sys
from typing import Any

from benches.allocator import measured_builds

import torvyn
from torvyn.components.builtin.aggregator_sentence import Sentence
from torvyn.components.builtin.filter_blocklist import Blocklist
from torvyn.components.builtin.sink_null import Null

COPIES = 9
"""The first may keep something for all of them, and others disturb each other."""


class Silent(torvyn.Source):
    def pull(self) -> Any:
        return torvyn.PENDING


class Iterated(torvyn.Source):
    def __iter__(self) -> Any:
        while True:
            yield torvyn.PENDING


class Passing(torvyn.Processor):
    def process(self, element: torvyn.Element) -> Any:
        return element


class Counting(torvyn.Aggregator):
    def ingest(self, element: torvyn.Element) -> Any:
        return None

    def held_elements(self) -> int:
        return 0


class Split(torvyn.Router):
    ports = ("left", "right")

    def route(self, element: torvyn.Element) -> Any:
        return "left"


class Timed(torvyn.Processor):
    def process(self, element: torvyn.Element) -> Any:
        return element

    def due_ns(self) -> int | None:
        return None

    def on_timer(self) -> Any:
        return None


class Taking(torvyn.Sink):
    def push(self, element: torvyn.Element) -> Any:
        return None


SOURCES = (Silent, Iterated)
INNER = (
    Passing,
    Counting,
    Timed,
    Split,
    lambda: torvyn.filter(lambda element: True),
    lambda: Blocklist("word"),
    lambda: Sentence({"mode": "simple"}),
)
SINKS = (Taking, Null)
POLICIES = ("fail-fast", "skip", "retry")


def make(seed: int) -> torvyn.Flow:
    """A flow with some chains of random components, each with a source of its own."""
    chance = random.Random(seed)
    flow = torvyn.Flow(on_error=chance.choice(POLICIES), queue_depth=chance.randrange(1, 100))
    for number in range(chance.randrange(1, 4)):
        before = f"source-{number}"
        flow.add(before, chance.choice(SOURCES)())
        for step in range(chance.randrange(6)):
            component = chance.choice(INNER)()
            name = f"inner-{number}-{step}"
            flow.add(name, component)
            flow.connect(before, name)
            before = name
            if isinstance(component, Split):
                before = f"{name}:left"
                flow.add(f"{name}-sink", Taking()).connect(f"{name}:right", f"{name}-sink")
        flow.add(f"sink-{number}", chance.choice(SINKS)()).connect(before, f"sink-{number}")
    return flow


def measure(seed: int) -> dict[str, int]:
    flows = [make(seed) for _ in range(COPIES)]
    with measured_builds() as sizes:
        for flow in flows:
            flow.start()
    told = {tuple(flow.memory().values()) for flow in flows}
    nodes = len(flows[0].plan.nodes)
    for flow in flows:
        flow.cancel()
    ((state, queues),) = told
    allocated = round(statistics.median(sizes))
    return {"nodes": nodes, "state": state, "queues": queues, "allocated": allocated}


def main() -> None:
    first, count = map(int, sys.argv[1:])
    for seed in range(first, first + count):
        print(json.dumps(measure(seed)))


if __name__ == "__main__":
    main()
