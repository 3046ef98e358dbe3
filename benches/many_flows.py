"""How much memory does a live flow take, and how late is a token among a thousand flows?

python -m benches.many_flows [--live N] [--gateways N] [--paced N] [--seconds S] [--json]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

from benches import allocator, work
from benches.harness import percentile
from benches.question import cannot_run, publish, say
from benches.report import Report, Table, verdict

STATE_TARGET_BYTES = 4096
LATENCY_TARGET_MS = 5.0
TOKENS_PER_S = 50
GATEWAYS = 200
METHOD = """\
Live: {live:,} started flows of examples/token-streaming (four components in Python; the source
waits after ten tokens, in the middle of a sentence), and {gateways:,} of examples/edge-gateway
(five guests in C, an edge on disk, a dead-letter file; no collector answers, so the windows wait
on the disk). There are fewer gateways because of what is not the reactor's: each takes almost 1
MB for its guests and its store, and about 26 of the 65,530 mappings that a process may have. Each
pipeline has a process of its own. Reactor state and queues are what each flow reports
(`flow.memory()`); the table shows the largest. "By the allocator" is what the C library gave out
while the native part of a flow was built, edges on disk included, with its own additions to each
piece: the median. Resident memory is the growth of the process from before the first flow is
built until all wait, per flow, with the Python objects and the guests. Paced: {paced:,} flows
(Python source, native `blocklist`, Python sink) on the worker threads, {rate} tokens/s each,
spread evenly over one period, for {seconds:g} s. Lateness is from the moment at which a token is
due to its delivery, so it includes the timer, the run queue and both hops; transit is from the
source's return to the delivery."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benches.many_flows")
    parser.add_argument("--live", type=int, default=10_000)
    parser.add_argument("--gateways", type=int, default=GATEWAYS)
    parser.add_argument("--paced", type=int, default=1_000)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    if cannot_run():
        return 2
    method = METHOD.format(rate=TOKENS_PER_S, **vars(options))
    report = Report("many_flows", "What do many flows cost?", method.replace("\n", " "))
    live = {"token-streaming": options.live, "edge-gateway": options.gateways}
    _live_table(report, {name: _live(name, count) for name, count in live.items()})
    _paced(report, options.paced, options.seconds)
    publish(report, options.json)
    return 0


def _live(name: str, count: int) -> dict[str, Any]:
    say(f"{count} live flows of {name}")
    command = [sys.executable, "-m", "benches.live_flows", name, str(count)]
    done = subprocess.run(command, env=allocator.environment(), stdout=subprocess.PIPE, check=True)
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


def _live_table(report: Report, live: dict[str, dict[str, Any]]) -> None:
    names = [f"{name}, {figures['flows']:,} live" for name, figures in live.items()]
    table = Table(("per flow, in bytes", *names, "target"), title="Live flows")
    judged = ("state_bytes_max", "allocated_bytes")
    rows = {
        "nodes": "nodes",
        "reactor state, largest": "state_bytes_max",
        "reactor state, median": "state_bytes_median",
        "by the allocator, when built": "allocated_bytes",
        "queues as grown, largest": "queue_bytes_max",
        "resident memory, all in all": "rss_bytes_per_flow",
    }
    for title, key in rows.items():
        largest = max(figures[key] for figures in live.values())
        target = verdict(largest, STATE_TARGET_BYTES) if key in judged else ""
        table.rows.append([title, *(f"{figures[key]:,.0f}" for figures in live.values()), target])
    took = [f"{each['start_s'] / each['flows'] * 1e6:,.0f}" for each in live.values()]
    table.rows.append(["time to build, start and wait, us", *took, ""])
    report.tables.append(table)
    report.data["live"] = live


def _paced(report: Report, count: int, seconds: float) -> None:
    import torvyn
    from benches.timed_components import PacedSource, StampingSink
    from torvyn.components import Blocklist

    say(f"{count} flows at {TOKENS_PER_S} tokens/s for {seconds:g} s")
    gap_ns = 1_000_000_000 // TOKENS_PER_S
    # Nothing is due before all have been started.
    first_ns = time.perf_counter_ns() + 2_000_000_000
    running = []
    for number in range(count):
        begin_ns = first_ns + number * gap_ns // count
        source = PacedSource(int(seconds * TOKENS_PER_S), begin_ns, gap_ns)
        sink = StampingSink()
        flow = torvyn.Flow(source, Blocklist(work.BLOCKED), sink)
        flow.start()
        running.append((source, sink, flow))
    if time.perf_counter_ns() > first_ns:
        raise AssertionError("the flows took more than 2 s to start; the first tokens were late")
    for _source, _sink, flow in running:
        flow.wait()
    _paced_table(report, [(source, sink) for source, sink, _flow in running])


def _paced_table(report: Report, pairs: list[tuple[Any, Any]]) -> None:
    late: list[float] = []
    transit: list[float] = []
    for source, sink in pairs:
        late += [(got - due) / 1e6 for due, got in zip(source.due_ns, sink.stamps, strict=True)]
        transit += [(got - at) / 1e6 for at, got in zip(source.sent_ns, sink.stamps, strict=True)]
    columns = ("time", "tokens", "p50, ms", "p99, ms", "worst, ms", "target, p99")
    table = Table(columns, title=f"{len(pairs):,} flows at {TOKENS_PER_S} tokens/s")
    for name, values in (
        ("lateness: due to delivered", late),
        ("transit: sent to delivered", transit),
    ):
        p50, p99 = percentile(values, 0.50), percentile(values, 0.99)
        row = [name, f"{len(values):,}", f"{p50:.3f}", f"{p99:.3f}", f"{max(values):.3f}"]
        table.rows.append([*row, verdict(p99, LATENCY_TARGET_MS)])
        report.data[name.partition(":")[0]] = {"p50_ms": p50, "p99_ms": p99}
    report.tables.append(table)


if __name__ == "__main__":
    sys.exit(main())
