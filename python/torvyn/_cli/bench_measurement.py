"""Measures a flow: rounds for the throughput, then traced rounds for the time of each call.

Tracing slows a flow, so throughput and call times never come from the same round. Reference work, a
fixed piece of plain Python, is timed before the first round and after each round, so that results
can be compared although the machine's speed varies with its clock and with other programs: a flow's
rate divided by the rate of the work next to it varies much less. The work must never change and
must not use Torvyn, because results of different versions are compared.
"""

from __future__ import annotations

import platform
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from torvyn.errors import UsageError

if TYPE_CHECKING:
    from torvyn._cli.foreground import Outcome
    from torvyn._flow.flow import Flow
    from torvyn._flow.statistics import Statistics
    from torvyn._link.plan import Plan

PERCENTILES: Final = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999}
FEWEST_ROUNDS: Final = 5
SHORTEST_S: Final = 2.0
_ENOUGH_CALLS: Final = 10_000
_SHORTEST_ROUND_S: Final = 0.1
_DRAIN_AGAIN_S: Final = 0.05


@dataclass(frozen=True)
class BenchOptions:
    warmup: int
    rounds: int | None
    """None: at least `FEWEST_ROUNDS`, for at least `SHORTEST_S`."""
    duration_s: float | None
    """Instead of a number of rounds: as many as fit, at least one."""
    limit: int | None

    @property
    def longest_round_s(self) -> float | None:
        """With a duration, a round is drained after a tenth of it: a flow may be endless, and a
        comparison needs several rounds."""
        if self.duration_s is None:
            return None
        return max(self.duration_s / 10, _SHORTEST_ROUND_S)

    def is_enough(self, rounds: int, elapsed_s: float) -> bool:
        if self.duration_s is not None:
            return elapsed_s >= self.duration_s
        if self.rounds is not None:
            return rounds >= self.rounds
        return rounds >= FEWEST_ROUNDS and elapsed_s >= SHORTEST_S


class RoundIncomplete(Exception):
    """A round did not complete; `outcome` says why."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.state)
        self.outcome = outcome


def measure(
    plan: Plan, options: BenchOptions, progress: Callable[[str], None] = lambda _: None
) -> dict[str, Any]:
    """The result of a benchmark, as `--format json` prints it and `--compare` reads it."""
    for number in range(options.warmup):
        progress(f"warm-up {number + 1} of {options.warmup}")
        _round(plan, options)
    rounds, reference = _rounds(plan, options, progress)
    times = _call_times(plan, options, len(rounds), progress)
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
    plan: Plan, options: BenchOptions, progress: Callable[[str], None]
) -> tuple[list[Statistics], list[float]]:
    """The rounds, and the rates of the reference work before the first and after each."""
    done: list[Statistics] = []
    reference = [reference_rate(0.0)]
    begin_s = time.monotonic()
    total = None if options.duration_s is not None else options.rounds
    while True:
        progress(f"round {len(done) + 1}" + ("" if total is None else f" of {total}"))
        done.append(_round(plan, options).statistics)
        reference.append(reference_rate(done[-1].elapsed_s))
        if options.is_enough(len(done), time.monotonic() - begin_s):
            return done, reference


def _round(plan: Plan, options: BenchOptions, traced: bool = False) -> Flow:
    from torvyn._cli.foreground import run_in_foreground
    from torvyn._flow.flow import Flow as NewFlow

    flow = NewFlow.from_plan(plan)
    if options.limit is not None:
        flow.limit(options.limit)
    if traced:
        flow.trace()
    with _drained_after(options.longest_round_s, flow):
        outcome = run_in_foreground(flow)
    if outcome.state != "completed":
        raise RoundIncomplete(outcome)
    if not outcome.statistics.produced:
        raise UsageError(
            "cli.nothing-measured",
            f"flow `{plan.name}` produced no elements in a round",
            hint="standard input can be read only once; read a file with `--input`",
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
        # Repeated, because a flow that is still starting ignores it.
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
    plan: Plan, options: BenchOptions, most_rounds: int, progress: Callable[[str], None]
) -> dict[str, list[int]]:
    """The times of each node's calls, from as many rounds as are needed for enough calls."""
    from torvyn._cli.timeline import productive

    times: dict[str, list[int]] = {}
    for number in range(most_rounds):
        progress(f"traced round {number + 1}")
        flow = _round(plan, options, traced=True)
        for call in productive(flow, flow.take_trace()[0]):
            times.setdefault(call[0], []).append(call[6])
        if all(len(nanos) >= _ENOUGH_CALLS for nanos in times.values()):
            break
    return times


def _components(plan: Plan, times: dict[str, list[int]]) -> dict[str, dict[str, float]]:
    return {
        node.name: {"calls": len(times[node.name]), **percentiles(times[node.name])}
        for node in plan.nodes
        if node.name in times
    }


def percentiles(nanos: list[int]) -> dict[str, int]:
    """The smallest value that the given share of all values does not exceed."""
    ordered = sorted(nanos)
    last = len(ordered) - 1
    return {
        f"{name}_ns": ordered[min(last, max(0, _ceiling(part * len(ordered)) - 1))]
        for name, part in PERCENTILES.items()
    }


def _ceiling(number: float) -> int:
    # 0.999 * 1000 is slightly more than 999: rounding avoids the next value.
    return -int(-round(number, 6) // 1)


def machine() -> dict[str, Any]:
    import torvyn
    from torvyn._io.resources import read_resources

    return {
        "torvyn": torvyn.__version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": read_resources().cores,
    }


_SHORTEST_S: Final = 0.0005
_LONGEST_S: Final = 0.05


def reference_rate(round_s: float) -> float:
    """Units of reference work per second, measured for about as long as a round takes."""
    span_s = min(max(round_s, _SHORTEST_S), _LONGEST_S)
    units, begin_s = 0, time.perf_counter()
    while True:
        _unit()
        units += 1
        elapsed_s = time.perf_counter() - begin_s
        if elapsed_s >= span_s:
            return units / elapsed_s


def _unit() -> int:
    """About 50 us of work on strings, dictionaries and lists, as components do."""
    counts: dict[str, int] = {}
    words: list[str] = []
    for number in range(400):
        word = str(number % 37)
        counts[word] = counts.get(word, 0) + 1
        words.append(word)
    return len("".join(words).split("3")) + len(counts)
