"""How long does a swap pause a node, and is anything lost?

python -m benches.hot_swap [--rate R] [--swaps N] [--json]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from benches.harness import percentile
from benches.question import cannot_run, publish, say
from benches.report import Report, Table, verdict

if TYPE_CHECKING:
    from benches.swap_workload import SwappedRun

PAUSE_TARGET_MS, LONGEST_TARGET_MS = 20.0, 50.0
METHOD = """\
A source sends {rate:,} elements per second to a processor and a sink. {swaps} times, at seeded
random moments, one of the three is swapped for a new version with `flow.swap`; the source and the
processor hand their state over. The pause is for how long the node took no elements. Lateness is
from the moment at which an element is due to its delivery, over all elements, so it includes the
pauses. An element is in disorder if it comes out of order, from an older version than the one
before it, or with a state that misses or repeats an element. Memory is the growth of the process
from the 20th swap to the end.
In the second table, the graph of a flow with a disk edge changes {changes} times: a node joins the
segment behind the edge, and leaves it again. Another segment of the same flow does not change; its
lateness stands beside that of a run without changes."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benches.hot_swap")
    parser.add_argument("--rate", type=int, default=5_000)
    parser.add_argument("--swaps", type=int, default=200)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    if cannot_run():
        return 2
    from benches.swap_workload import MODES, run_swapped

    changes = options.swaps // 2
    method = METHOD.format(rate=options.rate, swaps=options.swaps, changes=changes)
    method = method.replace("\n", " ")
    report = Report("hot_swap", "How long does a swap pause a node, and is anything lost?", method)
    columns = ("the processor runs", "pause p50, ms", "p99, ms", "largest, ms")
    table = Table((*columns, "lateness p99, ms", "lost", "repeated", "in disorder", "memory, MiB"))
    report.tables.append(table)
    for seed, mode in enumerate(MODES):
        say(f"{options.swaps} swaps, {mode}")
        run = run_swapped(options.rate, options.swaps, seed, mode)
        table.rows.append([{"python": "inline"}.get(mode, mode), *_figures(run)])
        report.data[mode] = {
            "pause_ms": run.pauses_ms,
            "lateness_p99_ms": percentile(run.lateness_ms, 0.99),
            "lost": run.lost,
            "repeated": run.repeated,
            "disordered": run.disordered,
            "growth_bytes": run.growth_bytes,
        }
    _add_graphs(report, options.rate, changes)
    publish(report, options.json)
    return 0


def _add_graphs(report: Report, rate: int, changes: int) -> None:
    """The pause of a segment with a new graph, and what one beside it notices."""
    from benches.exchange_workload import run_exchanged

    columns = ("graph changes", "pause p50, ms", "p99, ms", "largest, ms", "lateness p99, ms")
    beside = ("of the segment beside it p50, ms", "p99, ms", "p99.9, ms")
    table = Table((*columns, *beside, "lost, repeated, in disorder"))
    report.tables.append(table)
    for count in (0, changes):
        say(f"{count} changes of a graph")
        run = run_exchanged(rate, count, seed=count)
        pauses = run.pauses_ms or [0.0]
        p99 = percentile(pauses, 0.99)
        figures = [f"{percentile(pauses, 0.5):.1f}", f"{p99:.1f}", f"{max(pauses):.1f}"]
        late = [f"{percentile(run.lateness_ms, 0.99):.2f}"]
        late += [f"{percentile(run.beside_ms, share):.2f}" for share in (0.5, 0.99, 0.999)]
        figures = figures if count else ["", "", ""]
        table.rows.append([str(count), *figures, *late, str(run.wrong)])
        report.data[f"graph-{count}"] = {
            "pause_ms": run.pauses_ms,
            "beside_p99_ms": percentile(run.beside_ms, 0.99),
            "wrong": run.wrong,
        }


def _figures(run: SwappedRun) -> list[str]:
    pauses = run.pauses_ms
    p99, largest = percentile(pauses, 0.99), max(pauses)
    return [
        f"{percentile(pauses, 0.5):.2f}",
        f"{p99:.2f} ({verdict(p99, PAUSE_TARGET_MS)})",
        f"{largest:.2f} ({verdict(largest, LONGEST_TARGET_MS)})",
        f"{percentile(run.lateness_ms, 0.99):.2f}",
        str(run.lost),
        str(run.repeated),
        str(run.disordered),
        f"{run.growth_bytes / 2**20:.1f}",
    ]


if __name__ == "__main__":
    sys.exit(main())
