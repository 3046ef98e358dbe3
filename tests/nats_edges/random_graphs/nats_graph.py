"""A random flow whose output does not depend on how its branches interleave.

The same seed makes the same flow in every process, over a broker or in memory. Elements are JSON
objects with a key `k` and a content `v`, which every stage changes: what is delivered says which
way it went, and with which state.
"""

from __future__ import annotations

import json
import os
import random
import time
import zlib
from pathlib import Path
from typing import Any

import torvyn
from torvyn import PENDING, Element

KEYS = 7


def checksum(value: Any) -> int:
    return zlib.crc32(json.dumps(value).encode())


class Feed(torvyn.Source):
    def __init__(self, count: int, rate: float) -> None:
        super().__init__()
        self.next, self.count, self.rate = 0, count, rate
        self.first, self.started_s = 0, time.monotonic()

    def pull(self) -> object:
        if self.next >= self.count:
            return None
        if self.rate and self.next > self.first + (time.monotonic() - self.started_s) * self.rate:
            return PENDING.after(0.001)
        self.next += 1
        number = self.next - 1
        return json.dumps({"k": f"k{number * number % KEYS}", "v": number})


class Numbers(Feed):
    """Its position is saved."""

    def snapshot(self) -> int:
        return self.next

    def restore(self, state: int) -> None:
        self.first = self.next = state


class Acknowledged(Feed):
    """Begins after the last acknowledged number: after a kill it repeats what was on its way."""

    def __init__(self, count: int, rate: float, file: Path) -> None:
        super().__init__(count, rate)
        self.file = file

    def init(self, config: str) -> None:
        self.settled = int(self.file.read_text()) if self.file.exists() else 0
        self.first = self.next = self.settled

    def acknowledge(self, count: int) -> None:
        self.settled += count
        (swap := self.file.with_suffix(".new")).write_text(str(self.settled))
        os.replace(swap, self.file)


class Mark(torvyn.Processor):
    """Adds its name, and has no state."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def process(self, element: Element) -> str:
        fields = json.loads(element.text)
        return json.dumps({**fields, "v": [self.name, fields["v"]]})


class Count(torvyn.Processor):
    """Adds how many elements it has had: each of them must come once, and in order."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def process(self, element: Element) -> str:
        self.count += 1
        fields = json.loads(element.text)
        return json.dumps({**fields, "v": [self.count, fields["v"]]})

    def snapshot(self) -> int:
        return self.count

    def restore(self, state: int) -> None:
        self.count = state


class Collect(torvyn.Aggregator):
    """Sends several elements of a key together; the rest at the end."""

    size = 3

    def __init__(self) -> None:
        super().__init__()
        self.taken: list[Any] = []
        self.key = ""

    def _send(self) -> str:
        taken, self.taken = self.taken, []
        return json.dumps({"k": self.key, "v": taken})

    def ingest(self, element: Element) -> str | None:
        fields = json.loads(element.text)
        self.key = fields["k"]
        self.taken.append(fields["v"])
        return self._send() if len(self.taken) >= self.size else None

    def flush(self) -> list[str]:
        return [self._send()] if self.taken else []

    def snapshot(self) -> list[Any]:
        return [self.key, self.taken]

    def restore(self, state: list[Any]) -> None:
        self.key, self.taken = state


class Append(torvyn.Sink):
    def __init__(self, file: Path, pause_s: float) -> None:
        super().__init__()
        self.file, self.pause_s = file, pause_s
        if pause_s:
            self.run = "thread"

    def init(self, config: str) -> None:
        self.lines = self.file.open("a", buffering=1)

    def push(self, element: Element) -> None:
        if self.pause_s:
            time.sleep(self.pause_s)
        self.lines.write(element.text + "\n")


class RandomGraph:
    """`is_nats`: whether the broker carries some of the edges; otherwise none."""

    def __init__(self, seed: int, folder: Path, *, is_nats: bool) -> None:
        self.rng = rng = random.Random(seed)
        self.folder, self._is_nats = folder, is_nats
        self.flow = torvyn.Flow(name=f"seed{seed}", checkpoint_s=rng.choice((0.02, 0.2)))
        self.sinks: list[str] = []
        self.keeps_order = True
        """Whether the elements of a key stay in order."""
        self._is_ordered = True
        """Whether all elements do."""
        self._nodes = self._edges = 0
        self._stages = rng.randint(1, 4)
        self._wanted = rng.choice((1, 2, 2, 3))
        count = rng.randint(200, 1000)
        rate = count / 0.8 if is_nats else 0
        self._repeats = rng.random() < 0.25
        """Whether elements may come twice: then no stage counts them."""
        source: Feed = Numbers(count, rate)
        if self._repeats:
            source = Acknowledged(count, rate, folder / "acknowledged")
        self._tail = [self._add(source, [])]
        self._build()

    def _build(self) -> None:
        steps = [self._add_mark, self._add_filter, self._add_diamond, self._add_copies]
        for _ in range(self._stages):
            choices = list(steps)
            if self.keeps_order and not self._repeats:
                choices += [self._add_count, self._add_count, self._add_collect]
            if self._is_ordered and not self._repeats:
                choices.append(self._add_total)
            self.rng.choice(choices)()
        for number in range(self.rng.choice((1, 1, 2))):
            name = f"sink{number}"
            pause_s = self.rng.choice((0, 0, 0.0005))
            self.sinks.append(name)
            leaves = None if self._edges else True
            sink = Append(self.folder / name, pause_s if self._is_nats else 0)
            self._add(sink, self._tail, leaves=leaves)

    def _add(
        self, component: Any, tail: list[str], *, leaves: bool | None = None, **options: Any
    ) -> str:
        self._nodes += 1
        name = f"n{self._nodes}"
        self.flow.add(name, component, **options)
        leaves = self._leaves() if leaves is None else leaves
        waiting = self.rng.choice((1, 2, 64))
        for port in tail:
            # All of them: a segment must not be connected with itself.
            self._connect(port, name, leaves, waiting)
        return name

    def _leaves(self) -> bool:
        """Whether the broker carries the next edges."""
        return self._edges < self._wanted and self.rng.random() < 0.5

    def _connect(self, port: str, name: str, leaves: bool, waiting: int) -> None:
        self._edges += leaves
        if leaves and self._is_nats:
            self.flow.connect(port, name, carrier="nats", max_waiting=waiting)
        else:
            self.flow.connect(port, name)

    def _add_mark(self) -> None:
        self._tail = [self._add(Mark(f"m{self._nodes}"), self._tail)]

    def _add_filter(self) -> None:
        rest = self.rng.randint(2, 5)
        keep = torvyn.filter(lambda element: checksum(element.text) % rest != 0)
        self._tail = [self._add(keep, self._tail)]

    def _add_diamond(self) -> None:
        """Each key goes one way, so that it stays in order."""
        route = torvyn.router(
            lambda element: "ab"[checksum(json.loads(element.text)["k"]) % 2], ("a", "b")
        )
        router = self._add(route, self._tail)
        leaves = self._leaves()
        self._tail = [self._add(Mark(p), [f"{router}:{p}"], leaves=leaves) for p in "ab"]
        self._merge()
        self._is_ordered = False

    def _add_copies(self) -> None:
        """Every element goes both ways."""
        leaves = self._leaves()
        self._tail = [self._add(Mark(name), self._tail, leaves=leaves) for name in "xy"]
        self._merge()
        self.keeps_order = self._is_ordered = False

    def _merge(self) -> None:
        self._tail = [self._add(Mark("both"), self._tail)]

    def _add_count(self) -> None:
        replicas = self.rng.choice((1, 1, 2))
        place: Any = {"place": {"replicas": 2}} if replicas == 2 and self._is_nats else {}
        if replicas == 2:
            # A segment of its own, in two processes.
            name = self._add(Count, self._tail, leaves=True, key="k", **place)
            self._tail = [self._add(Mark("after"), [name], leaves=True)]
        else:
            self._tail = [self._add(Count, self._tail, key="k")]
        # Over a broker, keys pass each other.
        self._is_ordered = False

    def _add_total(self) -> None:
        self._tail = [self._add(Count(), self._tail)]

    def _add_collect(self) -> None:
        self._tail = [self._add(Collect, self._tail, key="k")]
        self._is_ordered = False
