"""What does an edge over a NATS server cost?

python -m benches.nats_edge [--rounds R] [--seconds S] [--json]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from benches.harness import quartiles
from benches.nats_edge.ends import MOST_AT_ONCE, TOKENS_PER_S
from benches.nats_edge.measurements import find_server, measure
from benches.question import cannot_run, publish, say
from benches.report import Report, Table, verdict

GOAL_RATE = 200_000
GOAL_P50_MS, GOAL_P99_MS, GOAL_CPU_US = 2.0, 20.0, 10.0
SESSIONS = (100, 300, 1000)
MOST_SESSIONS = SESSIONS[-1]
NAMES = {"edge": "`nats` edge", "hand": "nats-py by hand", "memory": "memory edge, one process"}
OVER_BROKER = ("edge", "hand")
METHOD = """\
Two processes and a NATS server (JetStream in files) on this machine. Sessions: each sends {tokens}
tokens per second for {seconds} s, in turn, to a node with a key; the edge keeps a bound per
session. Latency is from the time at which a token is due to the sink in the other process, so that
a source that is held back makes its tokens late; behind by: the median of the last tenth of the
tokens; took: from when the first one is due until the last one has arrived. CPU: user and system
time of a process from its first token to its end, per token, with the components in Python that
make, pass on and check the tokens; the memory edge shows what those take. Throughput: {count:,}
elements of 100 bytes from a source in Python to a sink that counts natively, from the start of the
reader to its end. By hand: all tokens that are due in one message (at most {most:,}) with
`publish_async` (256 on their way) and an ordered consumer of nats-py, without a key, a bound, a
state or recovery. The results are compared before anything is reported: every element once,
sessions in order. Medians of {rounds} interleaved rounds, after one that is not counted."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benches.nats_edge")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--count", type=int, default=500_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    if cannot_run() or find_server() is None:
        return 2
    method = METHOD.format(tokens=TOKENS_PER_S, most=MOST_AT_ONCE, **vars(options))
    report = Report(
        "nats_edge", "What does an edge over a NATS server cost?", method.replace("\n", " ")
    )
    for how, name in NAMES.items():
        say(f"checking {name}")
        measure(how, "sessions", MOST_SESSIONS, MOST_SESSIONS * TOKENS_PER_S)
    report.tables += [*_sessions(report, options), _throughput(report, options)]
    publish(report, options.json)
    return 0


def _sessions(report: Report, options: argparse.Namespace) -> list[Table]:
    sessions_of = f"sessions of {TOKENS_PER_S} tokens/s"
    columns = (sessions_of, "by", "p50 ms", "p99 ms", "behind by ms", "took s", "goal")
    latency = Table(columns, title="Latency")
    columns = (sessions_of, "by", "writer us", "reader us", "both us", "broker us", "goal")
    cpu = Table(columns, title="CPU time per token")
    for sessions in SESSIONS:
        count = sessions * TOKENS_PER_S * options.seconds
        rounds: dict[str, list[dict[str, float]]] = {how: [] for how in NAMES}
        for number in range(options.rounds):
            say(f"{sessions} sessions, round {number + 1} of {options.rounds}")
            for how in NAMES:
                rounds[how].append(measure(how, "sessions", sessions, count))
        for how, figures in rounds.items():
            latency.rows.append(_latency(how, sessions, figures))
            cpu.rows.append(_cpu(how, sessions, count, figures))
        report.data[f"{sessions} sessions"] = rounds
    return [latency, cpu]


def _latency(how: str, sessions: int, figures: Sequence[dict[str, float]]) -> Sequence[str]:
    p50, p99, end, took_s = (_median(figures, name) for name in ("p50", "p99", "end_p50", "took_s"))
    goal = ""
    if (how, sessions) == ("edge", 300):
        is_met = p50 < GOAL_P50_MS and p99 < GOAL_P99_MS
        goal = f"< 2 / < 20: {'met' if is_met else 'NOT met'}"
    elif (how, sessions) == ("edge", MOST_SESSIONS):
        goal = verdict(p99, GOAL_P99_MS)
    row = (f"{p50:.2f}", f"{p99:.2f}", f"{end:.2f}", f"{took_s:.1f}", goal)
    return (str(sessions), NAMES[how], *row)


def _cpu(how: str, sessions: int, count: int, figures: Sequence[dict[str, float]]) -> Sequence[str]:
    def us(*names: str) -> float:
        sums = [{"sum": sum(each[f"{name}_cpu_s"] for name in names)} for each in figures]
        return _median(sums, "sum") / count * 1e6

    if how not in OVER_BROKER:
        return (str(sessions), NAMES[how], "", "", f"{us('both'):.1f}", "", "")
    both = us("write", "read")
    is_goal = (how, sessions) == ("edge", MOST_SESSIONS)
    each = (us("write"), us("read"), both, us("broker"))
    goal = verdict(both, GOAL_CPU_US) if is_goal else ""
    return (str(sessions), NAMES[how], *(f"{figure:.1f}" for figure in each), goal)


def _throughput(report: Report, options: argparse.Namespace) -> Table:
    columns = ("elements of 100 bytes by", "elements/s", "goal")
    table = Table(columns, title="Throughput")
    rates: dict[str, list[float]] = {how: [] for how in OVER_BROKER}
    for number in range(options.rounds):
        say(f"throughput, round {number + 1} of {options.rounds}")
        for how in OVER_BROKER:
            took_s = measure(how, "many", 1, options.count)["took_s"]
            rates[how].append(options.count / took_s)
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
