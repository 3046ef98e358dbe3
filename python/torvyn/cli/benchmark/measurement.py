"""Measuring a flow: rounds for the throughput, then traced ones for the time of each call.

Tracing slows a flow, so the two are never taken from the same round. Reference work is timed before
the first round and after each one, so that results can be compared on a machine whose speed varies.
"""

from __future__ import annotations

import os
import platform
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from torvyn.cli.benchmark.reference_workload import reference_rate
from torvyn.errors import UsageError

if TYPE_CHECKING:
    from torvyn.cli.foreground_run import Outcome
    from torvyn.link.plan import Plan
    from torvyn.reactor import Flow, Statistics

PERCENTILES: Final = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999}
FEWEST_ROUNDS: Final = 5
SHORTEST_S: Final = 2.0
_ENOUGH_CALLS: Final = 10_000
_SHORTEST_ROUND_S: Final = 0.1
_DRAIN_AGAIN_S: Final = 0.05


@dataclass(frozen=True)
class Settings:
    warmup: int
    rounds: int | None
    """None: at least `FEWEST_ROUNDS`, and more for as long as `SHORTEST_S`."""
    duration_s: float | None
    """Instead of a number of rounds: as many as fit, at least one."""
    limit: int | None

    @property
    def longest_round_s(self) -> float | None:
        """With a duration, an endless flow is drained after a tenth of it, and counts as a round.
        A tenth, because a comparison needs several rounds."""
        if self.duration_s is None:
            return None
        return max(self.duration_s / 10, _SHORTEST_ROUND_S)

    def is_enough(self, rounds: int, elapsed_s: float) -> bool:
        if self.duration_s is not None:
            return elapsed_s >= self.duration_s
        if self.rounds is not None:
            return rounds >= self.rounds
        return rounds >= FEWEST_ROUNDS and elapsed_s >= SHORTEST_S


class Stopped(Exception):
    """A round did not come to its end; `outcome` says how."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.state)
        self.outcome = outcome


def measure(
    plan: Plan, settings: Settings, progress: Callable[[str], None] = lambda _: None
) -> dict[str, Any]:
    """The result of a benchmark, as `--format json` prints it and `--compare` reads it."""
    for number in range(settings.warmup):
        progress(f"warm-up {number + 1} of {settings.warmup}")
        _round(plan, settings)
    rounds, reference = _rounds(plan, settings, progress)
    times = _call_times(plan, settings, len(rounds), progress)
    rates = [one.produced / one.elapsed_s for one in rounds]
    return {
        "flow": plan.name,
        "machine": machine(),
        "rounds": [
            {"elapsed_s": one.elapsed_s, "produced": one.produced, "emitted": one.emitted}
            for one in rounds
        ],
        "reference": reference,
        "throughput": {"median": median(rates), "lowest": min(rates), "highest": max(rates)},
        "components": _components(plan, times),
        "copies": rounds[-1].copies,
        "allocations": rounds[-1].allocations,
    }


def _rounds(
    plan: Plan, settings: Settings, progress: Callable[[str], None]
) -> tuple[list[Statistics], list[float]]:
    """The rounds, and the rate of the reference before the first and after each."""
    done: list[Statistics] = []
    reference = [reference_rate(0.0)]
    begin_s = time.monotonic()
    total = None if settings.duration_s is not None else settings.rounds
    while True:
        progress(f"round {len(done) + 1}" + ("" if total is None else f" of {total}"))
        done.append(_round(plan, settings).statistics)
        reference.append(reference_rate(done[-1].elapsed_s))
        if settings.is_enough(len(done), time.monotonic() - begin_s):
            return done, reference


def _round(plan: Plan, settings: Settings, traced: bool = False) -> Flow:
    from torvyn.cli.foreground_run import run_in_foreground
    from torvyn.reactor import Flow as NewFlow

    flow = NewFlow.from_plan(plan)
    if settings.limit is not None:
        flow.limit(settings.limit)
    if traced:
        flow.trace()
    with _drained_after(settings.longest_round_s, flow):
        outcome = run_in_foreground(flow)
    if outcome.state != "completed":
        raise Stopped(outcome)
    if not outcome.statistics.produced:
        raise UsageError(
            "cli.nothing-measured",
            f"flow `{plan.name}` produced nothing in a round",
            hint="standard input is read once; give a file with `--input`",
        )
    return flow


@contextmanager
def _drained_after(limit_s: float | None, flow: Flow) -> Iterator[None]:
    if limit_s is None:
        yield
        return
    over = threading.Event()

    def drain() -> None:
        over.wait(limit_s)
        # More than once: a flow that is still starting does not take note of it.
        while not over.is_set():
            flow.drain()
            over.wait(_DRAIN_AGAIN_S)

    thread = threading.Thread(target=drain, name="torvyn-bench-limit", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _call_times(
    plan: Plan, settings: Settings, most_rounds: int, progress: Callable[[str], None]
) -> dict[str, list[int]]:
    """The times of each node's calls, from as many rounds as it takes to have enough."""
    from torvyn.cli.timeline import answered

    times: dict[str, list[int]] = {}
    for number in range(most_rounds):
        progress(f"traced round {number + 1}")
        flow = _round(plan, settings, traced=True)
        for call in answered(flow, flow.take_trace()[0]):
            times.setdefault(call[0], []).append(call[6])
        if all(len(found) >= _ENOUGH_CALLS for found in times.values()):
            break
    return times


def _components(plan: Plan, times: dict[str, list[int]]) -> dict[str, dict[str, float]]:
    return {
        node.name: {"calls": len(times[node.name]), **percentiles(times[node.name])}
        for node in plan.nodes
        if node.name in times
    }


def percentiles(nanos: list[int]) -> dict[str, int]:
    """The smallest value that at least such a part of all does not exceed."""
    ordered = sorted(nanos)
    last = len(ordered) - 1
    return {
        f"{name}_ns": ordered[min(last, max(0, _ceiling(part * len(ordered)) - 1))]
        for name, part in PERCENTILES.items()
    }


def _ceiling(number: float) -> int:
    # 0.999 * 1000 is a little more than 999: without the rounding the next value would be taken.
    return -int(-round(number, 6) // 1)


def machine() -> dict[str, Any]:
    import torvyn

    return {
        "torvyn": torvyn.__version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
    }
