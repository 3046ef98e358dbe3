"""How much memory does a live flow take, and how late is a token among a thousand flows?

python -m benches.many_flows [--live N] [--paced N] [--seconds S] [--json]
"""

from __future__ import annotations

import argparse
import gc
import statistics
import sys
import time
from collections.abc import Sequence
from typing import Any

from benches import work
from benches.harness import percentile
from benches.machine import resident_bytes
from benches.question import cannot_run, publish, say
from benches.report import Report, Table, verdict

STATE_TARGET_BYTES = 4096
LATENCY_TARGET_MS = 5.0
TOKENS_PER_S = 50
PARK_TIMEOUT_S = 120
METHOD = """\
Live: {live:,} started flows (Python source, native `blocklist`, `sentence` and `null`). The source
parks each of them after ten tokens, in the middle of a sentence. Resident memory is the growth of
the process from before the first flow is built until all are parked, per flow, including the Python
objects. Reactor state and queues are what each flow reports (`flow.memory()`); the table shows the
largest. Paced: {paced:,} flows (Python source, native `blocklist`, Python sink) on the worker
threads, {rate} tokens/s each, spread evenly over one period, for {seconds:g} s. Lateness is from
the moment at which a token is due to its delivery, so it includes the timer, the run queue and both
hops; transit is from the source's return to the delivery."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benches.many_flows")
    parser.add_argument("--live", type=int, default=10_000)
    parser.add_argument("--paced", type=int, default=1_000)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    if cannot_run():
        return 2
    method = METHOD.format(
        live=options.live, paced=options.paced, seconds=options.seconds, rate=TOKENS_PER_S
    )
    report = Report("many_flows", "What do many flows cost?", method.replace("\n", " "))
    _live(report, options.live)
    gc.collect()
    _paced(report, options.paced, options.seconds)
    publish(report, options.json)
    return 0


def _live(report: Report, count: int) -> None:
    from benches.timed_components import Arrivals

    say(f"{count} live flows")
    arrivals = Arrivals(count)
    gc.collect()
    before = resident_bytes()
    start = time.perf_counter()
    parked = [_start_parked(arrivals) for _ in range(count)]
    if not arrivals.all_here.wait(PARK_TIMEOUT_S):
        raise AssertionError(f"{arrivals.left} of {count} flows did not park in {PARK_TIMEOUT_S} s")
    took_s = time.perf_counter() - start
    gc.collect()
    per_flow = (resident_bytes() - before) / count
    memory = [flow.memory() for _source, flow in parked]
    for source, flow in parked:
        source.release()
        flow.wait()
    _live_table(report, memory, per_flow, took_s)


def _start_parked(arrivals: Any) -> tuple[Any, Any]:
    import torvyn
    from benches.timed_components import ParkedSource
    from torvyn.components.builtin.aggregator_sentence import Sentence
    from torvyn.components.builtin.filter_blocklist import Blocklist
    from torvyn.components.builtin.sink_null import Null

    source = ParkedSource(work.SEED_TOKENS[3:13], arrivals)
    flow = torvyn.Flow(source, Blocklist(work.BLOCKED), Sentence({"mode": "simple"}), Null())
    flow.start()
    return source, flow


def _live_table(
    report: Report, memory: list[dict[str, int]], per_flow: float, took_s: float
) -> None:
    state = [entry["state_bytes"] for entry in memory]
    queues = [entry["queue_bytes"] for entry in memory]
    table = Table(("per flow", "bytes", "target"), title=f"{len(memory):,} live flows")
    table.rows += [
        ["reactor state, largest", f"{max(state):,}", verdict(max(state), STATE_TARGET_BYTES)],
        ["reactor state, median", f"{statistics.median(state):,.0f}", ""],
        ["queues as grown, largest", f"{max(queues):,}", ""],
        ["resident memory, all in all", f"{per_flow:,.0f}", ""],
        ["time to build, start and park, us", f"{took_s / len(memory) * 1e6:,.1f}", ""],
    ]
    report.tables.append(table)
    report.data["live"] = {
        "flows": len(memory),
        "state_bytes_max": max(state),
        "queue_bytes_max": max(queues),
        "rss_bytes_per_flow": per_flow,
        "start_s": took_s,
    }


def _paced(report: Report, count: int, seconds: float) -> None:
    import torvyn
    from benches.timed_components import PacedSource, StampingSink
    from torvyn.components.builtin.filter_blocklist import Blocklist

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
