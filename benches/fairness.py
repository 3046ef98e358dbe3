"""Does a Critical flow get four times the share of a Normal one, at any cost per element?

python -m benches.fairness [--seconds S] [--normal N] [--json]
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from benches import work
from benches.question import cannot_run, publish, say
from benches.report import Report, Table

TARGET = (3.6, 4.4)
WARM_UP_S = 0.5
NATIVE_FILTERS = 2
"""Set for about 0.2 us per element; the table shows the measured cost."""
METHOD = """\
One Critical and {normal} Normal flows run on the worker threads; their sources always have a token.
After a warm-up of {settle:g} s, the elements that each flow delivers in {seconds:g} s are counted.
The ratio is the Critical flow's count divided by the mean count of the Normal flows. Native:
`scripted`, {filters} x `blocklist` and `null`, whose own cost is the work. 2 and 20 us: a Python
sink that spins for that time. `us` is the measured worker time per element: elapsed time times
workers in use (all cores for native flows, one for Python flows), divided by elements."""


@dataclass(frozen=True, slots=True)
class Contender:
    flow: Any
    delivered: Callable[[], int]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benches.fairness")
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--normal", type=int, default=50)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    if cannot_run():
        return 2
    method = METHOD.format(
        normal=options.normal, seconds=options.seconds, settle=WARM_UP_S, filters=NATIVE_FILTERS
    )
    report = Report("fairness", "Does priority hold under load?", method.replace("\n", " "))
    cores = int(report.machine["cores"])
    columns = ("work per element", "us", "critical", "normal, mean", "normal, range", "ratio")
    table = Table((*columns, "target"))
    cases: tuple[tuple[str, Callable[[str], Contender], int], ...] = (
        ("about 0.2 us, native", _native, cores),
        ("2 us, Python", lambda priority: _spinning(priority, 2_000), 1),
        ("20 us, Python", lambda priority: _spinning(priority, 20_000), 1),
    )
    for name, build, workers in cases:
        say(name)
        critical, normal = _contend(build, options.normal, options.seconds)
        table.rows.append(_row(name, critical, normal, options.seconds * workers))
        report.data[name] = {"critical": critical, "normal": normal}
    report.tables.append(table)
    publish(report, options.json)
    return 0


def _contend(
    build: Callable[[str], Contender], normal_count: int, seconds: float
) -> tuple[int, list[int]]:
    """The elements that the Critical flow and each Normal flow delivered in the time."""
    # The Critical flow is in the middle, so that its position does not change its share.
    half = normal_count // 2
    contenders = [build("normal") for _ in range(normal_count)]
    contenders.insert(half, build("critical"))
    for contender in contenders:
        contender.flow.start()
    time.sleep(WARM_UP_S)
    before = [contender.delivered() for contender in contenders]
    time.sleep(seconds)
    after = [contender.delivered() for contender in contenders]
    for contender in contenders:
        contender.flow.cancel()
    for contender in contenders:
        contender.flow.wait()
    counts = [last - first for first, last in zip(before, after, strict=True)]
    return counts.pop(half), counts


def _native(priority: str) -> Contender:
    import torvyn
    from torvyn.components import Blocklist, Null, Scripted

    endless = Scripted({"tokens": list(work.SEED_TOKENS), "repeat": 1_000_000_000})
    filters = [Blocklist("absent_word") for _ in range(NATIVE_FILTERS)]
    flow = torvyn.Flow(endless, *filters, Null(), priority=priority)
    return Contender(flow, lambda: int(flow.statistics.emitted))


def _spinning(priority: str, work_ns: int) -> Contender:
    import torvyn
    from benches.timed_components import BurningSink, EndlessSource

    sink = BurningSink(work_ns)
    flow = torvyn.Flow(EndlessSource(), sink, priority=priority)
    return Contender(flow, lambda: sink.count)


def _row(name: str, critical: int, normal: list[int], worker_s: float) -> list[str]:
    total = critical + sum(normal)
    mean = statistics.mean(normal)
    if total == 0 or mean == 0:
        raise AssertionError(f"{name}: critical delivered {critical}, normal {sum(normal)}")
    ratio = critical / mean
    met = "met" if TARGET[0] <= ratio <= TARGET[1] else "NOT met"
    return [
        name,
        f"{worker_s / total * 1e6:.3f}",
        f"{critical:,}",
        f"{mean:,.0f}",
        f"{min(normal):,}-{max(normal):,}",
        f"{ratio:.2f}",
        f"{TARGET[0]}-{TARGET[1]}: {met}",
    ]


if __name__ == "__main__":
    sys.exit(main())
