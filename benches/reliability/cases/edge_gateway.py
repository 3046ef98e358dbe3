"""Does a gateway with a disk edge lose, repeat, reorder or delay readings?"""

from __future__ import annotations

import functools
from typing import Any

from benches.edge import broker, scenarios
from benches.edge.gateway_process import Peer
from benches.edge.peers import torvyn_gateway
from benches.harness import percentile
from benches.reliability.case import Case, Measurement, SkipCase

KILLS = 20
"""Kills per round."""
KILL_RATE, SECONDS_PER_KILL = 2000, 1.5
BATCH = 500
"""Readings per request of the uplink, at most."""
HUGE_BACKLOG, SOAK_S = 200_000, 60
BACKLOG, LIVE_RATE, LIVE_S = 20_000, 1000, 4
LONG_S = 600
"""The outage whose readings are sent in a tenth of the time."""


def _gateway(carrier: str = torvyn_gateway.DISK) -> Peer:
    reason = torvyn_gateway.missing() or (None if broker.program() else broker.INSTALL)
    if reason is not None:
        raise SkipCase(reason)
    return torvyn_gateway.peer(carrier)


@functools.cache
def _killed(rounds: int, carrier: str = torvyn_gateway.DISK) -> list[dict[str, Any]]:
    count, peer = int(KILLS * SECONDS_PER_KILL * KILL_RATE), _gateway(carrier)
    return [scenarios.live_kills(peer, count, KILL_RATE, KILLS, seed) for seed in range(rounds)]


def killed(rounds: int) -> Measurement:
    samples = [float(one["lost"] + one["out_of_order"]) for one in _killed(rounds)]
    return Measurement(sum(samples), samples, f"{KILLS * rounds} kills")


def killed_repeated(rounds: int, carrier: str = torvyn_gateway.DISK) -> Measurement:
    results = _killed(rounds, carrier)
    samples = [float(count) for one in results for count in one["repeated_per_kill"]]
    lost = sum(one["lost"] for one in results)
    detail = f"{sum(samples):g} after {len(samples)} kills, lost {lost}"
    return Measurement(max(samples), samples, detail)


def live_first_repeated(rounds: int) -> Measurement:
    return killed_repeated(rounds, torvyn_gateway.LIVE_FIRST)


def killed_recovery_ms(rounds: int) -> Measurement:
    samples = sorted(value for one in _killed(rounds) for value in one["recovery_ms"])
    detail = f"median {percentile(samples, 0.5):.0f} ms"
    return Measurement(percentile(samples, 0.99), samples, detail)


def outage(rounds: int) -> Measurement:
    results = [scenarios.outage(_gateway(), 10_000, 2500, with_kill=True) for _ in range(rounds)]
    samples = [float(one["lost"] + one["out_of_order"]) for one in results]
    return Measurement(sum(samples), samples)


def long_outage(rounds: int) -> Measurement:
    count = LONG_S * LIVE_RATE
    results = [scenarios.long_outage(_gateway(), count, 10 * LIVE_RATE) for _ in range(rounds)]
    samples = [float(one["lost"] + one["out_of_order"]) for one in results]
    repeated = sum(one["repeated"] for one in results)
    return Measurement(sum(samples), samples, f"{count * rounds:,} readings, {repeated} repeated")


@functools.cache
def _drained(rounds: int) -> list[dict[str, Any]]:
    peer = _gateway(torvyn_gateway.LIVE_FIRST)
    return [scenarios.drain_beside_live(peer, BACKLOG, LIVE_RATE, LIVE_S) for _ in range(rounds)]


def drain_s(rounds: int) -> Measurement:
    """Seconds per 10,000 readings."""
    samples = sorted(10_000 / one["drain_per_s"] for one in _drained(rounds))
    return Measurement(percentile(samples, 0.5), samples)


def drain_live_ratio(rounds: int) -> Measurement:
    ratios = [one["p99_while_draining_ms"] / one["p99_alone_ms"] for one in _drained(rounds)]
    lost = sum(one["lost"] for one in _drained(rounds))
    return Measurement(percentile(ratios, 0.5), ratios, f"lost {lost}")


def drain_rate(rounds: int) -> Measurement:
    """How far the rate is from the one that was set, in percent."""
    rate = 2000
    peer = _gateway(f"{torvyn_gateway.DISK}\ndrain_rate = {rate}")
    results = [scenarios.outage(peer, 10_000, 5000, with_kill=False) for _ in range(rounds)]
    samples = [abs(one["drain_per_s"] / rate - 1) * 100 for one in results]
    return Measurement(max(samples), samples)


def backlog_mib(rounds: int) -> Measurement:
    results = [scenarios.backlog_memory(_gateway(), HUGE_BACKLOG) for _ in range(min(rounds, 3))]
    samples = [one["peak_mib"] - one["idle_mib"] for one in results]
    return Measurement(max(samples), samples, f"lost {sum(one['lost'] for one in results)}")


def soak(rounds: int) -> Measurement:
    result = scenarios.soak(_gateway(), LIVE_RATE, SOAK_S * rounds)
    return Measurement(result["mib_per_hour"], [], f"{result['mib']:.1f} MiB")


CASES = [
    Case(
        "edge.killed",
        "kill -9 of a gateway under load",
        f"MQTT to HTTP over a disk edge, {KILL_RATE:,} readings/s, killed at random moments",
        0,
        "lost or out of order",
        killed,
    ),
    Case("edge.killed.repeated", "the same", "per kill", BATCH, "repeated", killed_repeated),
    Case(
        "edge.killed.live-first",
        "the same, with live-first",
        "per kill",
        BATCH,
        "repeated",
        live_first_repeated,
    ),
    Case(
        "edge.killed.recovery",
        "the same",
        "from the start of the process to the first delivered reading",
        1000,
        "ms, p99",
        killed_recovery_ms,
    ),
    Case(
        "edge.outage",
        "the collector is away, and the gateway is killed meanwhile",
        "port and connections closed, kill -9 in the middle, 10,000 readings",
        0,
        "lost or out of order",
        outage,
    ),
    Case(
        "edge.long-outage",
        "the collector is away for ten minutes",
        f"{LIVE_RATE:,} readings/s, sent ten times as fast; kill -9, and later SIGTERM, meanwhile",
        0,
        "lost or out of order",
        long_outage,
    ),
    Case(
        "edge.drain",
        "a backlog after an outage",
        f"{BACKLOG:,} readings are sent while {LIVE_RATE:,} per second arrive",
        1.0,
        "s per 10,000 readings",
        drain_s,
    ),
    Case("edge.drain.live", "the same", "p99 of the live readings", 1.2, "x", drain_live_ratio),
    Case(
        "edge.drain_rate",
        "the same, with drain_rate",
        "10,000 readings at 2,000 per second",
        5,
        "% off",
        drain_rate,
    ),
    Case(
        "edge.backlog.memory",
        "a long outage",
        f"a backlog of {HUGE_BACKLOG:,} readings grows and is sent",
        16,
        "MiB above idle",
        backlog_mib,
    ),
    Case(
        "edge.soak",
        "none, for a long time",
        f"{LIVE_RATE:,} readings/s for {SOAK_S} s per round; growth in the second half",
        2,
        "MiB per hour",
        soak,
    ),
]
