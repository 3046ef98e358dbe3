"""Components that read the clock, burn time or wait, for the benchmarks about time.

Importing this imports torvyn. All stamps are `time.perf_counter_ns`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

import torvyn
from benches.work import STOPS


class StampingSource(torvyn.Source):
    """Sends tokens, at once or `gap_s` apart; records when each that ends a sentence leaves.

    A negative gap is spent spinning, which keeps the machine awake.
    """

    def __init__(self, tokens: Sequence[str], stamps: list[int], gap_s: float = 0.0) -> None:
        super().__init__()
        self.tokens = tokens
        self.ends = [token.rstrip().endswith(STOPS) for token in tokens]
        self.stamps = stamps
        self.gap_s = gap_s
        self.index = 0
        self.rested = False

    def pull(self) -> Any:
        index = self.index
        if index == len(self.tokens):
            return None
        if self.gap_s < 0:
            spin_until_ns = time.perf_counter_ns() + int(-self.gap_s * 1e9)
            while time.perf_counter_ns() < spin_until_ns:
                pass
        elif self.gap_s and not self.rested:
            self.rested = True
            return torvyn.PENDING.after(self.gap_s)
        self.rested = False
        self.index = index + 1
        token = self.tokens[index]
        if self.ends[index]:
            self.stamps.append(time.perf_counter_ns())
        return token


class StampingSink(torvyn.Sink):
    """Records the time of every delivery."""

    def __init__(self) -> None:
        super().__init__()
        self.stamps: list[int] = []

    def push(self, element: torvyn.Element) -> None:
        self.stamps.append(time.perf_counter_ns())


class Arrivals:
    """A barrier that opens when `count` parties have arrived; safe from any thread."""

    def __init__(self, count: int) -> None:
        self.left = count
        self.lock = threading.Lock()
        self.all_here = threading.Event()

    def arrive(self) -> None:
        with self.lock:
            self.left -= 1
            if self.left == 0:
                self.all_here.set()


class ParkedSource(torvyn.Source):
    """Sends its tokens, then parks until `release`: a live flow that waits for its model."""

    def __init__(self, tokens: Sequence[str], arrivals: Arrivals) -> None:
        super().__init__()
        self.tokens = tokens
        self.arrivals = arrivals
        self.index = 0
        self.released = False

    def pull(self) -> Any:
        index = self.index
        self.index = index + 1
        if index < len(self.tokens):
            return self.tokens[index]
        if self.released:
            return None
        if index == len(self.tokens):
            self.arrivals.arrive()
        return torvyn.PENDING

    def release(self) -> None:
        self.released = True
        self.wake()


class PacedSource(torvyn.Source):
    """Sends `count` tokens, due at `start_ns` + n x `gap_ns`; records when each left."""

    def __init__(self, count: int, start_ns: int, gap_ns: int) -> None:
        super().__init__()
        self.due_ns = [start_ns + n * gap_ns for n in range(count)]
        self.sent_ns: list[int] = []

    def pull(self) -> Any:
        index = len(self.sent_ns)
        if index == len(self.due_ns):
            return None
        now_ns = time.perf_counter_ns()
        wait_ns = self.due_ns[index] - now_ns
        if wait_ns > 0:
            return torvyn.PENDING.after(wait_ns / 1e9)
        self.sent_ns.append(time.perf_counter_ns())
        return " token"


class EndlessSource(torvyn.Source):
    """Always has a token: saturation."""

    def pull(self) -> str:
        return " token"


class BurningSink(torvyn.Sink):
    """Spends `work_ns` on every element and counts it."""

    def __init__(self, work_ns: int) -> None:
        super().__init__()
        self.work_ns = work_ns
        self.count = 0

    def push(self, element: torvyn.Element) -> None:
        until = time.perf_counter_ns() + self.work_ns
        while time.perf_counter_ns() < until:
            pass
        self.count += 1
