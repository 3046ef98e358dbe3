"""What does a durable gateway cost, and what does it lose?

    python -m benches.edge.gateway [--rounds R] [--count N] [--kills K] [--only NAME...] [--json]

Build the peers first: `python -m benches.edge.build_peers`.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable, Sequence
from typing import Any

from benches.edge import broker, scenarios
from benches.edge.gateway_process import Peer
from benches.edge.peers import peers
from benches.edge.scenarios import Account, undelivered
from benches.harness import quartiles
from benches.question import cannot_run, publish, say
from benches.report import Report, Table

RATE, SECONDS = 10_000, 5
LIVE_RATE, LIVE_S, BACKLOG = 1000, 4, 40_000
OUTAGE, OUTAGE_RATE = 5000, 2500
KILL_COUNT, KILL_RATE = 8000, 1000
QUESTION = "What does a durable gateway cost, and what does it lose?"
METHOD = """\
Sensors publish readings of about 70 bytes of JSON with QoS 1; the gateway renames a field, adds
one, stores the reading and posts it in batches to an HTTP collector. mosquitto has unlimited
queues. Publisher, broker, gateway and collector share this machine; each run has a new session at
the broker and an empty folder. Sustained: {count:,} readings published at once, from the first to
the last arrival at the collector. CPU: user and system time of the gateway's process. Latency: from
the time at which a reading was due to its arrival, {rate:,} readings per second for {seconds} s.
Medians of {rounds} interleaved rounds. A run in which a reading is missing is refused, except where
the fault is the question. Outage: the collector closes its port and all accepted connections while
{outage:,} readings arrive. Kills: kill -9 at random moments of {kill_count:,} readings at
{kill_rate:,} per second. Drain: a backlog of {backlog:,} readings is sent while live ones arrive at
{live_rate:,} per second."""
SPEED = (
    "gateway",
    "a stored reading survives a power cut",
    "readings/s",
    "quartiles",
    "us of CPU per reading",
    "p50 ms",
    "p99 ms",
    "idle MiB",
    "peak MiB",
    "bytes written per reading",
)
FAULTS = ("gateway", "outage", "outage + kill -9", "{kills} x kill -9, live", "drain/s")
DRAIN = ("gateway", "drain/s", "live p99 ms", "live p99 ms while it drains", "ratio")


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    if cannot_run():
        return 2
    if broker.program() is None:
        print(broker.INSTALL, file=sys.stderr)
        return 2
    figures = {**vars(options), "rate": RATE, "seconds": SECONDS, "outage": OUTAGE}
    figures |= {"kill_count": KILL_COUNT, "kill_rate": KILL_RATE}
    figures |= {"backlog": BACKLOG, "live_rate": LIVE_RATE}
    method = METHOD.format(**figures).replace("\n", " ")
    report = Report(
        "edge_gateway", "What does a durable gateway cost, and what does it lose?", method
    )
    found, report.left_out = peers(options.only)
    report.versions = {peer.name: peer.version for peer in found} | {"mosquitto": broker.version()}
    for part in (_speed, _faults, _drain):
        part(report, found, options)
    publish(report, options.json)
    return 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benches.edge.gateway")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--count", type=int, default=40_000)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--only", nargs="*", default=[], help="names of gateways, or prefixes")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args(arguments)


def _speed(report: Report, found: list[Peer], options: argparse.Namespace) -> None:
    results: dict[str, list[dict[str, Any]]] = {peer.name: [] for peer in found}
    for number in range(options.rounds):
        for peer in found:
            say(f"speed, round {number + 1} of {options.rounds}: {peer.name}")
            fast = scenarios.sustained(peer, options.count)
            paced = scenarios.latency(peer, RATE, SECONDS)
            results[peer.name].append(fast | {key: paced[key] for key in ("p50_ms", "p99_ms")})
    table = Table(SPEED, title=f"Speed; latency at {RATE:,} readings per second")
    for peer in found:
        rounds = results[peer.name]
        low, middle, high = quartiles([one["readings_per_s"] for one in rounds])
        row = [peer.name, peer.is_durable, f"{middle:,.0f}", f"{low:,.0f} - {high:,.0f}"]
        row += [f"{_median(rounds, 'cpu_us'):.0f}"]
        row += [_milliseconds(_median(rounds, key)) for key in ("p50_ms", "p99_ms")]
        keys = ("idle_mib", "peak_mib", "written_per_reading")
        row += [f"{_median(rounds, key):,.0f}" for key in keys]
        table.rows.append(row)
    report.tables.append(table)
    report.data["speed"] = results


def _faults(report: Report, found: list[Peer], options: argparse.Namespace) -> None:
    runs: dict[str, Callable[[Peer], dict[str, Any]]] = {
        "outage": lambda peer: scenarios.outage(peer, OUTAGE, OUTAGE_RATE, with_kill=False),
        "outage_kill": lambda peer: scenarios.outage(peer, OUTAGE, OUTAGE_RATE, with_kill=True),
        "live_kills": lambda peer: scenarios.live_kills(
            peer, KILL_COUNT, KILL_RATE, options.kills, seed=1
        ),
    }
    columns = [column.format(kills=options.kills) for column in FAULTS]
    table = Table(columns, title="Faults")
    for peer in found:
        row = [peer.name]
        results = {}
        for name, run in runs.items():
            say(f"{name}: {peer.name}")
            result = results[name] = run(peer)
            row.append(_account(result))
        drained = results["outage"].get("drain_per_s")
        row.append(f"{drained:,.0f}" if drained else "-")
        table.rows.append(row)
        report.data.setdefault("faults", {})[peer.name] = results
    report.tables.append(table)


def _drain(report: Report, found: list[Peer], options: argparse.Namespace) -> None:
    table = Table(DRAIN, title="Drain beside live readings")
    for peer in found:
        say(f"drain: {peer.name}")
        result = scenarios.drain_beside_live(peer, BACKLOG, LIVE_RATE, LIVE_S)
        report.data.setdefault("drain", {})[peer.name] = result
        if result["lost"]:
            table.rows.append((peer.name, "-", "-", undelivered(result["lost"]), "-"))
            continue
        alone, beside = result["p99_alone_ms"], result["p99_while_draining_ms"]
        drained = f"{result['drain_per_s']:,.0f}"
        if beside is None:
            table.rows.append((peer.name, drained, _milliseconds(alone), "gone at once", "-"))
            continue
        figures = (drained, _milliseconds(alone), _milliseconds(beside))
        table.rows.append((peer.name, *figures, f"{beside / alone:.1f}"))
    report.tables.append(table)


def _account(result: dict[str, Any]) -> str:
    keys = ("sent", "lost", "repeated", "out_of_order")
    return Account(*(result[key] for key in keys)).text


def _median(rounds: list[dict[str, Any]], key: str) -> float:
    return statistics.median(one[key] for one in rounds)


def _milliseconds(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


if __name__ == "__main__":
    sys.exit(main())
