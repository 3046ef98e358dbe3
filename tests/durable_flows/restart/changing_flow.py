"""A durable flow that gets other graphs, and what must hold of its output."""

from __future__ import annotations

import random
import threading

import torvyn
from torvyn import Element
from torvyn._link.plan import Plan

RUNS = ("inline", "thread")


class Numbers(torvyn.Source):
    """Counts until it is stopped; pauses often, so that there is something to wait for."""

    def __init__(self) -> None:
        super().__init__()
        self.number = 0
        self.is_stopped = threading.Event()

    def pull(self) -> object:
        if self.is_stopped.is_set():
            return None
        self.number += 1
        return str(self.number) if self.number % 40 else torvyn.PENDING.after(0.001)

    def snapshot(self) -> int:
        return self.number

    def restore(self, state: int) -> None:
        self.number = state

    @property
    def sent(self) -> list[str]:
        return [str(number) for number in range(1, self.number + 1) if number % 40]


class Tag(torvyn.Processor):
    """Appends its name; counts what it has seen, in its state."""

    def __init__(self, name: str, seen: int | None = None) -> None:
        super().__init__()
        self.tag, self.seen = name, seen

    def process(self, element: Element) -> str:
        if self.seen is None:
            return f"{element.text} {self.tag}"
        self.seen += 1
        return f"{element.text} {self.tag}={self.seen}"


class Counted(Tag):
    def snapshot(self) -> int | None:
        return self.seen

    def restore(self, state: int) -> None:
        self.seen = state


class Collect(torvyn.Sink):
    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def push(self, element: Element) -> None:
        self.texts.append(element.text)


class ChangingFlow:
    """A chain from a source to a sink. `count` is always in it, the others come and go."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.source, self.sink, self.tap = Numbers(), Collect(), Collect()
        self.parts = {name: Tag(name) for name in "abcd"}
        self.parts["count"] = Counted("count", 0)
        self.modes = {name: self.random.choice(RUNS) for name in self.parts}

    def plan(self) -> Plan:
        """A random chain, with random edges on the disk; `tap` reads from a random place."""
        some = self.random.sample("abcd", self.random.randint(0, 4))
        # In this order: what waits on an edge has passed the nodes before it, and no other.
        inner = [name for name in ("a", "b", "count", "c", "d") if name in {*some, "count"}]
        return self.chain(*inner, tap=self.random.choice([None, "count"]))

    def chain(self, *inner: str, tap: str | None = None, disk: float = 0.5) -> Plan:
        flow = torvyn.Flow(checkpoint_s=0.02)
        flow.add("in", self.source)
        for name in inner:
            flow.add(name, self.parts[name], run=self.modes[name])
        flow.add("out", self.sink)
        # The log of the first edge numbers the elements for all nodes behind it.
        flow.connect("in", inner[0], carrier="disk")
        for source, target in zip(inner, (*inner[1:], "out"), strict=True):
            flow.connect(source, target, carrier=self._carrier(disk))
        if tap is not None:
            flow.add("tap", self.tap).connect(tap, "tap", carrier=self._carrier(disk))
        return flow.plan

    def _carrier(self, disk: float) -> str:
        return "disk" if self.random.random() < disk else "memory"

    def check(self) -> None:
        """Every element came once and in order, and the state of `count` missed none."""
        words = [text.split() for text in self.sink.texts]
        assert [each[0] for each in words] == self.source.sent
        counts = [int(each.split("=")[1]) for line in words for each in line if "=" in each]
        assert counts == list(range(1, len(words) + 1))
        assert all(len({*line}) == len(line) for line in words)
        tapped = [int(text.split()[0]) for text in self.tap.texts]
        assert tapped == sorted({*tapped})
