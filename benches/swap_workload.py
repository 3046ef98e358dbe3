"""A flow at a fixed rate whose components are swapped at random moments.

Importing this imports torvyn.
"""

from __future__ import annotations

import gc
import logging
import random
import threading
import time
from array import array
from dataclasses import dataclass
from typing import Any

import torvyn
from benches.machine import resident_bytes
from torvyn.errors import FlowError
from torvyn.testing import as_variant

MODES = ("python", "thread", "async")


class PacedNumbers(torvyn.Source):
    """Sends `count` numbers at `rate`; its position moves to the next version."""

    def __init__(self, count: int, rate: int, begin_s: float) -> None:
        super().__init__()
        self.count, self.rate, self.begin_s = count, rate, begin_s
        self.sent = 0

    def pull(self) -> Any:
        if self.sent == self.count:
            return None
        late_s = time.perf_counter() - self.begin_s - self.sent / self.rate
        if late_s < 0:
            return torvyn.PENDING.after(-late_s)
        self.sent += 1
        return str(self.sent - 1)

    def snapshot(self) -> int:
        return self.sent

    def restore(self, state: int) -> None:
        self.sent = state


class Version(torvyn.Processor):
    """Adds its version and how many elements it and those before it have seen."""

    def __init__(self, version: int) -> None:
        super().__init__()
        self.version, self.seen = version, 0

    def process(self, element: torvyn.Element) -> str:
        self.seen += 1
        return f"{element.text} {self.version} {self.seen}"

    def snapshot(self) -> int:
        return self.seen

    def restore(self, state: int) -> None:
        self.seen = state


class AsyncVersion(Version):
    async def process(self, element: torvyn.Element) -> str:  # type: ignore[override]
        return super().process(element)


FAULTS = ("init", "restore", "first", "fifth", "restore hangs", "first hangs")
TIMEOUT_S = 0.5


class FailingVersion(Version):
    """Raises, or hangs until the end of the run."""

    def __init__(self, fault: str, over: threading.Event) -> None:
        super().__init__(0)
        self.fault, self.over, self.calls = fault, over, 0

    def init(self, config: str) -> None:
        self.fail("init")

    def restore(self, state: int) -> None:
        self.fail("restore")
        super().restore(state)

    def process(self, element: torvyn.Element) -> str:
        self.calls += 1
        self.fail({1: "first", 5: "fifth"}.get(self.calls, ""))
        return super().process(element)

    def fail(self, at: str) -> None:
        if self.fault == at:
            raise ValueError(f"broken: {at}")
        if self.fault == f"{at} hangs":
            self.over.wait()


class AsyncFailingVersion(FailingVersion):
    async def process(self, element: torvyn.Element) -> str:  # type: ignore[override]
        return super().process(element)


class Journal:
    """Judges what arrives. It allocates nothing meanwhile, so a run's growth is not its own."""

    def __init__(self, count: int, rate: int, begin_s: float) -> None:
        self.begin_s, self.rate = begin_s, rate
        self.times = bytearray(count)
        self.lateness_ms = array("d", bytes(8 * count))
        self.arrived = self.disordered = 0
        self._last = (-1, 0)

    def note(self, text: str) -> None:
        late_s = time.perf_counter() - self.begin_s
        number, version, seen = (int(field) for field in text.split())
        self.lateness_ms[number] = (late_s - number / self.rate) * 1e3
        self.times[number] += 1
        self.arrived += 1
        before, last_version = self._last
        is_next = number == before + 1 and version >= last_version and seen == self.arrived
        self.disordered += not is_next
        self._last = (number, version)


class Recorder(torvyn.Sink):
    """Writes to the journal that all versions share."""

    def __init__(self, journal: Journal) -> None:
        super().__init__()
        self.journal = journal

    def push(self, element: torvyn.Element) -> None:
        self.journal.note(element.text)


@dataclass(frozen=True, slots=True)
class SwappedRun:
    pauses_ms: list[float]
    lateness_ms: list[float]
    """Of every element, from when it was due to its delivery."""
    lost: int
    repeated: int
    disordered: int
    """Elements out of order, of an older version than the one before, or with a lost state."""
    growth_bytes: int
    """Of the resident memory, from the first tenth of the swaps to the end."""


def version(number: int, mode: str) -> Any:
    return AsyncVersion(number) if mode == "async" else as_variant(Version(number), mode)


def run_swapped(rate: int, swaps: int, seed: int, mode: str, gap_s: float = 0.05) -> SwappedRun:
    """Swaps a random node about every `gap_s`, `swaps` times, at `rate` elements per second."""
    dice = random.Random(seed)
    count = int(rate * gap_s * swaps * 1.15)
    begin_s = time.perf_counter() + 0.2
    journal = Journal(count, rate, begin_s)
    flow = torvyn.Flow()
    flow.add("numbers", PacedNumbers(count, rate, begin_s)).add("stage", version(0, mode))
    flow.add("sink", Recorder(journal)).connect("numbers", "stage").connect("stage", "sink")
    flow.start()
    resident = 0
    for number in range(1, swaps + 1):
        time.sleep(dice.uniform(0, 2 * gap_s) * 0.9)
        name = dice.choice(["numbers", "stage", "stage", "sink"])
        if name == "stage":
            flow.swap(name, version(number, mode), trial_s=1.0)
        elif name == "sink":
            flow.swap(name, Recorder(journal), trial_s=1.0)
        else:
            flow.swap(name, PacedNumbers(count, rate, begin_s), trial_s=1.0)
        if number == max(swaps // 10, 1):
            gc.collect()
            resident = resident_bytes()
    flow.wait()
    gc.collect()
    growth_bytes = resident_bytes() - resident
    return _judge(flow, journal, count, growth_bytes)


def run_failing(rate: int, old_mode: str) -> SwappedRun:
    """Swaps a version for others in each run mode that fail in each way; it is back each time."""
    faults = [(mode, fault) for mode in MODES for fault in FAULTS]
    count, over = int(rate * len(faults) * (TIMEOUT_S + 0.3)), threading.Event()
    begin_s = time.perf_counter() + 0.2
    journal = Journal(count, rate, begin_s)
    flow = torvyn.Flow()
    flow.add("numbers", PacedNumbers(count, rate, begin_s)).add("stage", version(0, old_mode))
    flow.add("sink", Recorder(journal)).connect("numbers", "stage").connect("stage", "sink")
    flow.start()
    logging.getLogger("torvyn.reactor").setLevel(logging.ERROR)
    returns = 0
    for mode, fault in faults:
        kind = AsyncFailingVersion if mode == "async" else FailingVersion
        new: Any = kind(fault, over)
        try:
            flow.swap(
                "stage", new if mode == "async" else as_variant(new, mode), timeout_s=TIMEOUT_S
            )
        except FlowError:
            continue
        returns += 1
        give_up_s = time.monotonic() + 30
        while sum(report.is_return for report in flow.swaps) < returns:
            if time.monotonic() > give_up_s or flow.wait(0.005):
                raise AssertionError(f"{old_mode} -> {mode}: not back after `{fault}`")
    flow.wait()
    over.set()
    return _judge(flow, journal, count, 0)


def _judge(flow: torvyn.Flow, journal: Journal, count: int, growth_bytes: int) -> SwappedRun:
    return SwappedRun(
        [report.pause_ms for report in flow.swaps],
        list(journal.lateness_ms),
        journal.times.count(0),
        journal.arrived - (count - journal.times.count(0)),
        journal.disordered,
        growth_bytes,
    )
