"""What does an edge over a NATS server cost?

python -m benches.nats_edge [--rounds R] [--seconds S] [--json]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from benches.harness import quartiles
from benches.nats_edge.ends import TOKENS_PER_S
from benches.nats_edge.measurements import find_server, measure
from benches.question import cannot_run, publish, say
from benches.report import Report, Table

GOAL_RATE = 200_000
GOAL_P50_MS, GOAL_P99_MS = 2.0, 20.0
GOAL_SESSIONS = 300
SESSIONS = (100, 300, 600, 1000)
NAMES = {"edge": "`nats` edge", "hand": "nats-py by hand"}
METHOD = """\
Two processes and a NATS server (JetStream in files) on this machine. Sessions: each sends
{tokens} tokens per second for {seconds} s, in turn; the edge has a subject per session. Latency is
from the making of a token in one process to the sink in the other; behind by: the median of the
last tenth of the tokens; took: until the last one has arrived. A source that is held back makes
its tokens later, which shows only in the time that it took. Throughput: {count:,} elements of 100
bytes from a source in Python to a sink that counts natively, from the start of the reader to its
end. By hand: one message per element with `publish_async` (256 on their way) and an ordered
consumer of nats-py, without a bound, a state or recovery. The results are compared before anything
is reported: every element once, sessions in order. Medians of {rounds} interleaved rounds."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benches.nats_edge")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--count", type=int, default=500_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    if cannot_run() or find_server() is None:
        return 2
    method = METHOD.format(tokens=TOKENS_PER_S, **vars(options)).replace("\n", " ")
    report = Report("nats_edge", "What does an edge over a NATS server cost?", method)
    report.tables += [_sessions(report, options), _throughput(report, options)]
    publish(report, options.json)
    return 0


def _sessions(report: Report, options: argparse.Namespace) -> Table:
    sessions_of = f"sessions of {TOKENS_PER_S} tokens/s"
    columns = (sessions_of, "by", "p50 ms", "p99 ms", "behind by ms", "took s", "goal")
    table = Table(columns, title="Latency")
    for sessions in SESSIONS:
        count = sessions * TOKENS_PER_S * options.seconds
        rounds: dict[str, list[dict[str, float]]] = {how: [] for how in NAMES}
        for number in range(options.rounds):
            say(f"{sessions} sessions, round {number + 1} of {options.rounds}")
            for how in NAMES:
                rounds[how].append(measure(how, "sessions", sessions, count))
        for how, figures in rounds.items():
            names = ("p50", "p99", "end_p50", "took_s")
            p50, p99, end, took_s = (_median(figures, name) for name in names)
            is_met = p50 < GOAL_P50_MS and p99 < GOAL_P99_MS
            is_goal = (how, sessions) == ("edge", GOAL_SESSIONS)
            goal = f"< 2 / < 20: {'met' if is_met else 'NOT met'}" if is_goal else ""
            row = (f"{p50:.2f}", f"{p99:.2f}", f"{end:.2f}", f"{took_s:.1f}", goal)
            table.rows.append((str(sessions), NAMES[how], *row))
        report.data[f"{sessions} sessions"] = rounds
    return table


def _throughput(report: Report, options: argparse.Namespace) -> Table:
    table = Table(("elements of 100 bytes by", "elements/s", "goal"), title="Throughput")
    rates: dict[str, list[float]] = {how: [] for how in NAMES}
    for number in range(options.rounds):
        say(f"throughput, round {number + 1} of {options.rounds}")
        for how in NAMES:
            count = options.count if how == "edge" else options.count // 5
            rates[how].append(count / measure(how, "many", 1, count)["took_s"])
    for how, each in rates.items():
        rate = quartiles(each)[1]
        is_met = "met" if rate >= GOAL_RATE else "NOT met"
        goal = f">= {GOAL_RATE:,}: {is_met}" if how == "edge" else ""
        table.rows.append((NAMES[how], f"{rate:,.0f}", goal))
    report.data["throughput"] = rates
    return table


def _median(figures: Sequence[dict[str, float]], name: str) -> float:
    return quartiles([each[name] for each in figures])[1]


if __name__ == "__main__":
    sys.exit(main())
