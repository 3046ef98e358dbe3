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
In the second table, the graph of a flow with a disk edge changes {changes} times: a node joins
behind the edge, and leaves again. Each time the flow restarts from its checkpoint, in the same
process, as after `torvyn reload`. The restart lasts from the decision until the new components are
initialized; the pause is for how long nothing was delivered."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benches.hot_swap")
    parser.add_argument("--rate", type=int, default=5_000)
    parser.add_argument("--swaps", type=int, default=200)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    if cannot_run():
        return 2
    from benches.swap_workload import MODES, run_swapped

    changes = options.swaps // 4
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
    _add_restarts(report, options.rate, changes)
    publish(report, options.json)
    return 0


def _add_restarts(report: Report, rate: int, changes: int) -> None:
    """What a new graph costs, which restarts the flow."""
    from benches.restart_workload import run_restarted

    columns = ("new graphs", "restart p50, ms", "p99, ms", "pause p50, ms", "p99, ms")
    table = Table((*columns, "largest, ms", "lost, repeated, in disorder"))
    report.tables.append(table)
    say(f"{changes} restarts with another graph")
    run = run_restarted(rate, changes, seed=changes)
    times = (run.restarts_ms, run.pauses_ms)
    figures = [f"{percentile(each, share):.0f}" for each in times for share in (0.5, 0.99)]
    table.rows.append([str(changes), *figures, f"{max(run.pauses_ms):.0f}", str(run.wrong)])
    report.data["restart"] = {
        "restart_ms": run.restarts_ms,
        "pause_ms": run.pauses_ms,
        "lateness_p99_ms": percentile(run.lateness_ms, 0.99),
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
