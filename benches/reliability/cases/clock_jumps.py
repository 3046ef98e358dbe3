"""Does a wall clock that is set, or a device with a wrong one, lose or misplace readings?"""

from __future__ import annotations

import functools
import json
import logging
import random

from benches.reliability.case import Case, Measurement
from torvyn import PENDING, Flow, Source
from torvyn.components import Window
from torvyn.testing import Clock, CollectingSink, idle, run_flow

READINGS = 400
STEPS_S = (-86_400, -7_200, -30, 30, 7_200, 86_400)


class Fed(Source):
    def __init__(self) -> None:
        super().__init__()
        self.items: list[str | None] = []

    def put(self, item: str | None) -> None:
        self.items.append(item)
        self.wake()

    def pull(self) -> object:
        return self.items.pop(0) if self.items else PENDING


@functools.cache
def _by_arrival(seed: int) -> tuple[int, int]:
    """Readings that are in no window, and windows that do not last ten seconds, after jumps."""
    logging.getLogger("torvyn.time").setLevel(logging.ERROR)
    rng, clock, source = random.Random(seed), Clock(), Fed()
    window, sink = Window({"every": "10s", "idle_close": "5s"}), CollectingSink()
    run = run_flow(Flow(source, window, sink, clock=clock), until=idle)
    for _ in range(READINGS):
        clock.advance(rng.random() * 4)
        if rng.random() < 0.05:
            clock.set_wall(rng.choice(STEPS_S))
        source.put("reading")
        run.go(idle)
    source.put(None)
    run.go()
    windows = [json.loads(text) for text in sink.texts]
    counted = sum(one["count"] for one in windows)
    return READINGS - counted, sum(one["start"] >= one["end"] for one in windows)


def _late_by_others(seed: int) -> int:
    """Readings of good devices that one device with a fast clock makes late."""
    rng, clock, source = random.Random(seed), Clock(), Fed()
    window = Window({"every": "10s", "time": "at"})
    flow = Flow(clock=clock).add("source", source).add("window", window)
    run = run_flow(flow.connect("source", "window"), until=idle)
    for _ in range(READINGS):
        clock.advance(1)
        ahead_s = rng.choice((0, 0, 0, 600, 86_400))
        source.put(json.dumps({"at": clock.wall_ns() / 1e9 + ahead_s}))
        run.go(idle)
    return run.statistics.nodes["window"].counts["late"]


def lost(rounds: int) -> Measurement:
    samples = [float(sum(_by_arrival(seed))) for seed in range(rounds)]
    return Measurement(sum(samples), samples, f"{READINGS} readings per round")


def late(rounds: int) -> Measurement:
    samples = [float(_late_by_others(seed)) for seed in range(rounds)]
    return Measurement(sum(samples), samples, f"{READINGS} readings per round")


CASES = [
    Case(
        "clock.jumps",
        "the wall clock is set forward and back, by seconds to a day",
        "windows by arrival time, with a clock that is moved by hand",
        0,
        "lost, or windows without a length",
        lost,
    ),
    Case(
        "clock.fast-device",
        "a device whose clock is minutes to a day ahead",
        "windows by event time over all devices together",
        0,
        "readings of others that are late",
        late,
    ),
]
