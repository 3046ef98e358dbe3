"""A random flow: its stages, its disk edges, and what every sink must receive.

The same seed makes the same flow in every run.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from random_parts import (
    AsyncCollect,
    AsyncStage,
    Broker,
    Collect,
    Counter,
    HeldCollect,
    IdSink,
    Position,
    SavedCollect,
    Stage,
    Tap,
    ThreadCollect,
    id_of,
)

import torvyn

SMALLEST_LOG = 1 << 20
PAD_BYTES = 1500
"""What makes elements large enough to fill the smallest log."""
FIELDS = {"compute": {"ids": "list(id)"}, "every": "40s", "time": "at"}


@dataclass(slots=True)
class RandomFlow:
    flow: torvyn.Flow
    count: int
    tail: list[str] = field(default_factory=list)
    """The ports that the next node is connected to."""
    logs: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The disk edges, with their options."""
    taps: dict[str, str] = field(default_factory=dict)
    """By log: the node that notes what comes back."""
    expected: dict[str, set[int]] = field(default_factory=dict)
    """By sink: the ids that it must receive."""
    is_ordered: bool = True
    """Whether ids arrive in order, apart from repetitions."""
    has_single_ids: bool = True
    """Whether no aggregator has come yet."""
    may_repeat: bool = False
    """Whether a drain repeats elements, because something before them was not settled."""


class RandomGraph:
    def __init__(self, seed: int, folder: Path) -> None:
        self.rng = rng = random.Random(seed)
        self.folder = folder
        self.edges = rng.choice((0, 1, 1, 1, 2, 2, 3))
        self.drops = self.edges > 0 and rng.random() < 0.25
        self.pad_bytes = PAD_BYTES if self.drops else rng.choice((0, 0, 200))
        count = rng.randint(1500, 2500) if self.drops else rng.randint(300, 3000)
        checkpoint_s = rng.choice((None, 0.02, 0.2))
        self.made = RandomFlow(torvyn.Flow(checkpoint_s=checkpoint_s), count)
        self.made.expected = {"": set(range(count))}
        self.is_saved = self.edges > 0 or checkpoint_s is not None
        """Whether states are saved at all."""
        self.has_states = self.is_saved and rng.random() < 0.5
        """Whether the segment at the end so far has a state."""
        self.nodes = 0

    def build(self) -> RandomFlow:
        self._add_source()
        for left in range(self.edges, -1, -1):
            for _ in range(self.rng.randint(0, 2)):
                self.rng.choice(self._stages())()
            if left > 1 or (left == 1 and self.rng.random() < 0.5):
                self._add_edge()
            elif left == 1:
                self._add_sinks(on_disk=True)
                return self.made
        self._add_sinks(on_disk=False)
        return self.made

    # Nodes

    def _add(self, component: Any, **options: Any) -> str:
        self.nodes += 1
        name = f"n{self.nodes}"
        self.made.flow.add(name, component, **options)
        for port in self.made.tail:
            self.made.flow.connect(port, name)
        self.made.tail = [name]
        return name

    def _add_source(self) -> None:
        rng, burst = self.rng, self.rng.choice((0, 3, 20))
        sizes = (self.made.count, self.pad_bytes, burst)
        if self.has_states and rng.random() < 0.5:
            self._add(Position(*sizes))
        else:
            self._add(Broker(self.folder / "acknowledged", *sizes))
            if self.has_states:
                self._add(Counter())

    def _stages(self) -> list[Callable[[], None]]:
        stages = [self._add_stage, self._add_collect]
        if self.made.has_single_ids:
            stages += [self._add_filter, self._add_diamond]
        if self.made.has_single_ids and (self.has_states or not self.is_saved):
            # A batch of batches would not fit into a small log.
            stages += [self._add_batch, self._add_keyed_batch, self._add_window, self._add_join]
        return stages

    def _stage(self) -> Stage:
        kinds = (
            Stage,
            AsyncStage,
            lambda: Stage("thread"),
            *([Counter] if self.has_states else []),
        )
        return self.rng.choice(kinds)()

    def _add_stage(self) -> None:
        self._add(self._stage())

    def _add_filter(self) -> None:
        divisor = self.rng.randint(2, 5)
        self._add(torvyn.filter(lambda element: id_of(element) % divisor != 0))
        self.made.expected[""] -= set(range(0, self.made.count, divisor))

    def _add_diamond(self) -> None:
        router = self._add(torvyn.router(lambda element: "ab"[id_of(element) % 2], ("a", "b")))
        ends = []
        for port in "ab":
            self.made.tail = [f"{router}:{port}"]
            ends.append(self._add(self._stage()))
        self.made.tail, self.made.is_ordered = ends, False

    def _add_collect(self) -> None:
        size = self.rng.randint(1, 30)
        if self.has_states:
            self._add(SavedCollect(size))
        else:
            kinds: list[type[Collect]] = [HeldCollect, AsyncCollect, ThreadCollect]
            self._add(self.rng.choice(kinds)(size))
            self.made.may_repeat = True
        self.made.has_single_ids = False

    def _add_batch(self, **options: Any) -> None:
        config = {
            "size": self.rng.randint(2, 8 if self.drops else 50),
            "linger": self.rng.choice((0, "5ms")),
        }
        self._add("batch", config=config, **options)
        self.made.has_single_ids = False

    def _add_keyed_batch(self) -> None:
        self._add_batch(key="k")
        self.made.is_ordered = False
        self.made.may_repeat |= not self.is_saved

    def _add_window(self) -> None:
        name = self._add("window", config=FIELDS, key="k")
        # What is repeated after a crash may be late; it leaves the window as it came.
        self.made.tail = [name, f"{name}:late"]
        self.made.has_single_ids = self.made.is_ordered = False
        self.made.may_repeat |= not self.is_saved

    def _add_join(self) -> None:
        sides = ("left", "right")
        router = self._add(torvyn.router(lambda element: sides[id_of(element) % 2], sides))
        self.made.tail = []
        name = self._add("join", config={"within": "3s", "time": "at", "mode": "outer"})
        for side in sides:
            self.made.flow.connect(f"{router}:{side}", f"{name}:{side}")
        self.made.tail = [name, f"{name}:late"]
        self.made.has_single_ids = self.made.is_ordered = False
        # An element is in the pairs of all of its partners.
        self.made.may_repeat = True

    # Edges on the disk, and sinks

    def _edge_options(self) -> dict[str, Any]:
        order = self.rng.choice(("oldest-first", "oldest-first", "live-first"))
        policy = self.rng.choice(("drop-oldest", "drop-newest")) if self.drops else "block"
        max_bytes = self.rng.choice((SMALLEST_LOG, 4 * SMALLEST_LOG))
        options = {"order": order, "backpressure": policy, "max_bytes": max_bytes}
        return options | ({"max_age_s": 0.1} if self.drops and self.rng.random() < 0.3 else {})

    def _add_edge(self) -> None:
        """A disk edge. Behind it begins a segment that has a state or not."""
        if len(self.made.tail) > 1:
            self._add(Stage())
        self.has_states = self.rng.random() < 0.5
        [port] = self.made.tail
        self._add_tap(port, self._edge_options())
        if self.has_states:
            self._add(Counter())

    def _add_tap(self, port: str, options: dict[str, Any]) -> None:
        self.made.tail = []
        name = self._add(Tap(self.folder / f"tap{len(self.made.logs)}"))
        self.made.flow.connect(port, name, carrier="disk", **options)
        log = f"{port.partition(':')[0]}:{port.partition(':')[2] or 'output'}->{name}"
        self.made.logs[log] = options
        self.made.taps[log] = f"tap{len(self.made.logs) - 1}"
        self.made.is_ordered &= options["order"] != "live-first"

    def _add_sinks(self, on_disk: bool) -> None:
        """One sink or two, which both receive everything."""
        if len(self.made.tail) > 1:
            self._add(Stage())
        [port] = self.made.tail
        expected = self.made.expected.pop("")
        for number in range(self.rng.choice((1, 1, 2))):
            self.made.tail = [port]
            if on_disk and number == 0:
                self._add_tap(port, self._edge_options())
            name = f"sink{number}"
            pause_s = self.rng.choice((0, 0, 0.0002, 0.002 if self.drops else 0))
            run = "thread" if pause_s else self.rng.choice(("inline", "thread"))
            self._add(IdSink(self.folder / name, pause_s, run))
            self.made.expected[name] = set(expected)
