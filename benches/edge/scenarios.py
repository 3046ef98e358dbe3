"""What is measured of a gateway, each in a fresh folder with a fresh session at the broker.

Every figure comes with its account: the numbers that the collector received are compared with those
that the broker acknowledged to the publisher.
"""

from __future__ import annotations

import bisect
import random
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benches.edge import publisher
from benches.edge.broker import broker
from benches.edge.collector import Collector, Delivered
from benches.edge.gateway_process import GatewayProcess, Peer, Place
from benches.edge.readings import now_us
from benches.harness import percentile

LIMIT_S = 120.0


@dataclass(slots=True)
class Account:
    """What became of the readings that the broker had taken."""

    sent: int
    lost: int
    repeated: int
    out_of_order: int

    @property
    def text(self) -> str:
        parts = [undelivered(self.lost) if self.lost else "lost 0"]
        parts += [f"repeated {self.repeated:,}"] if self.repeated else []
        parts += [f"{self.out_of_order:,} out of order"] if self.out_of_order else []
        return ", ".join(parts)

    def data(self) -> dict[str, int]:
        return asdict(self)


def undelivered(count: int) -> str:
    """Not lost: the wait ends when nothing new has come for a while, and more may come later."""
    return f"{count:,} not delivered within the wait"


def account(delivered: Delivered, expected: range) -> Account:
    return Account(
        len(expected), delivered.lost(expected), delivered.repeated(), delivered.out_of_order()
    )


@contextmanager
def gateway(peer: Peer) -> Iterator[tuple[GatewayProcess, Collector, int]]:
    """A warm gateway, its collector and the port of its broker."""
    with tempfile.TemporaryDirectory(prefix="torvyn-edge-") as made, broker(Path(made)) as port:
        collector = Collector()
        collector.open()
        folder = Path(made) / "gateway"
        folder.mkdir()
        process = GatewayProcess(peer, Place(folder, port, collector.port))
        try:
            process.start_and_warm_up(collector)
            yield process, collector, port
        finally:
            process.close()
            collector.close()


def sustained(peer: Peer, count: int) -> dict[str, Any]:
    """As fast as it can: the broker holds what the gateway has not taken yet."""
    with gateway(peer) as (process, collector, port):
        time.sleep(1)
        idle_mib = process.memory_mib()
        cpu_s, written = process.cpu_s(), process.written_bytes()
        publisher.publish(port, 0, count)
        _all_delivered(process, collector, range(count))
        cpu_s, written = process.cpu_s() - cpu_s, process.written_bytes() - written
        delivered = collector.delivered()
        return {
            "readings_per_s": count / delivered.wall_s(),
            "cpu_us": cpu_s / count * 1e6,
            "idle_mib": idle_mib,
            "peak_mib": process.memory_mib("VmHWM"),
            "written_per_reading": written / count,
            "readings_per_request": count / collector.requests,
        }


def latency(peer: Peer, rate: float, seconds: float) -> dict[str, Any]:
    """From the time at which a reading was due to its arrival at the collector."""
    count = int(rate * seconds)
    with gateway(peer) as (process, collector, port):
        cpu_s = process.cpu_s()
        publisher.publish(port, 0, count, rate)
        _all_delivered(process, collector, range(count))
        latencies = collector.delivered().latencies_ms()
        return {
            "p50_ms": percentile(latencies, 0.5),
            "p99_ms": percentile(latencies, 0.99),
            "cpu_us": (process.cpu_s() - cpu_s) / count * 1e6,
        }


def outage(peer: Peer, count: int, rate: float, *, with_kill: bool) -> dict[str, Any]:
    """The collector is away while `count` readings arrive; then it comes back."""
    with gateway(peer) as (process, collector, port):
        collector.close()
        sending = publisher.start(port, 0, count, rate)
        if with_kill:
            time.sleep(count / rate / 2)
            process.kill()
            process.start()
        sending.wait()
        time.sleep(1)
        opened_s = time.monotonic()
        collector.open()
        collector.wait_for(range(count), LIMIT_S)
        delivered = collector.delivered()
        result = account(delivered, range(count)).data()
        if not result["lost"]:
            result["drain_per_s"] = count / delivered.wall_s()
            result["until_empty_s"] = time.monotonic() - opened_s
        return result


def long_outage(peer: Peer, count: int, rate: float) -> dict[str, Any]:
    """The collector is away while very many readings arrive. Meanwhile the gateway is killed, and
    later it is stopped by SIGTERM; both times it is started again."""
    with gateway(peer) as (process, collector, port):
        collector.close()
        sending = publisher.start(port, 0, count, rate)
        for end in (process.kill, process.stop):
            time.sleep(count / rate / 3)
            end()
            process.start()
        sending.wait()
        collector.open()
        collector.wait_for(range(count), LIMIT_S)
        return account(collector.delivered(), range(count)).data()


def live_kills(peer: Peer, count: int, rate: float, kills: int, seed: int) -> dict[str, Any]:
    """kill -9 at random moments of live traffic, and a start at once."""
    moments = random.Random(seed)
    starts_us = []
    with gateway(peer) as (process, collector, port):
        sending = publisher.start(port, 0, count, rate)
        pause_s = count / rate / (kills + 1)
        for _ in range(kills):
            time.sleep(pause_s * moments.uniform(0.7, 1.1))
            process.kill()
            starts_us.append(now_us())
            process.start()
        sending.wait()
        collector.wait_for(range(count), LIMIT_S)
        delivered = collector.delivered()
    return account(delivered, range(count)).data() | {
        "repeated_per_kill": repeated_since(delivered, starts_us),
        "recovery_ms": recoveries_ms(delivered, starts_us),
    }


def repeated_since(delivered: Delivered, starts_us: list[int]) -> list[int]:
    """How many readings were repeated after each start and before the next."""
    counts = [0] * (len(starts_us) + 1)
    seen: set[int] = set()
    for seq, arrival in zip(delivered.seqs, delivered.arrivals_us, strict=True):
        if seq in seen:
            counts[bisect.bisect(starts_us, arrival)] += 1
        seen.add(seq)
    return counts[1:]


def recoveries_ms(delivered: Delivered, starts_us: list[int]) -> list[float]:
    """From each start of the process to the first arrival of a reading after it."""
    arrivals = delivered.arrivals_us
    firsts = (bisect.bisect(arrivals, start) for start in starts_us)
    return [
        (arrivals[first] - start) / 1000
        for first, start in zip(firsts, starts_us, strict=True)
        if first < len(arrivals)
    ]


def drain_beside_live(peer: Peer, backlog: int, rate: float, seconds: float) -> dict[str, Any]:
    """Live readings go on while a backlog is sent: how late are they until it is gone?"""
    live = int(rate * seconds)
    first_live = live + backlog
    everything = range(first_live + live)
    with gateway(peer) as (process, collector, port):
        publisher.publish(port, 0, live, rate)
        _all_delivered(process, collector, range(live))
        alone = percentile(collector.delivered().latencies_ms(), 0.99)
        collector.close()
        publisher.publish(port, live, backlog, 10_000)
        collector.open()
        # Its next attempt may be seconds away; only then does it drain.
        collector.wait_for(range(live, live + 1), LIMIT_S)
        publisher.publish(port, first_live, live, rate)
        collector.wait_for(everything, LIMIT_S)
        delivered = collector.delivered()
    result = {"lost": delivered.lost(everything), "p99_alone_ms": alone}
    if result["lost"]:
        return result
    old = delivered.between(live, first_live)
    new = delivered.between(first_live, len(everything)).until(old.arrivals_us[-1])
    return result | {
        "drain_per_s": backlog / old.wall_s(),
        "p99_while_draining_ms": percentile(new.latencies_ms(), 0.99) if new.seqs else None,
        "live_while_draining": len(new.seqs),
    }


def backlog_memory(peer: Peer, backlog: int) -> dict[str, Any]:
    """How much memory a backlog needs, while it grows and while it is sent."""
    with gateway(peer) as (process, collector, port):
        idle_mib = process.memory_mib()
        collector.close()
        publisher.publish(port, 0, backlog)
        collector.open()
        collector.wait_for(range(backlog), LIMIT_S)
        result = account(collector.delivered(), range(backlog)).data()
        return result | {"idle_mib": idle_mib, "peak_mib": process.memory_mib("VmHWM")}


def soak(peer: Peer, rate: float, seconds: float) -> dict[str, Any]:
    """How fast memory grows in the second half of a long run."""
    count = int(rate * seconds)
    with gateway(peer) as (process, collector, port):
        sending = publisher.start(port, 0, count, rate)
        time.sleep(seconds / 2)
        middle_mib = process.memory_mib()
        sending.wait()
        _all_delivered(process, collector, range(count))
        growth_mib = process.memory_mib() - middle_mib
        return {"mib_per_hour": growth_mib / (seconds / 2) * 3600, "mib": middle_mib}


def _all_delivered(process: GatewayProcess, collector: Collector, expected: range) -> None:
    """A figure of readings that did not all arrive is no figure."""
    if not collector.wait_for(expected, LIMIT_S):
        lost = collector.delivered().lost(expected)
        raise AssertionError(f"{process.peer.name} delivered {lost:,} fewer than were sent")
