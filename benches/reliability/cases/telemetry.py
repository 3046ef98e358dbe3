"""Which guarantees hold when the trace collector is unreachable?"""

from __future__ import annotations

import asyncio
import socket
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benches.reliability.case import Case, Measurement
from benches.reliability.guests import TESTS

ANSWERS = 1000
"""Answers per round; fewer than the exporter's queue holds."""
TURN = 25
"""Answers per turn."""


async def _answer_times(tracer: Any, count: int) -> list[float]:
    """The seconds of each of `count` sequential answers."""
    from asgi_client import PROMPT_BODY, Client

    from torvyn.engine import Scripted, Service
    from torvyn.serve import ServerSettings, app

    application = app({"chat": Service("chat", Scripted("one two"))}, ServerSettings(), tracer)
    took: list[float] = []
    for _ in range(count):
        began_s = time.perf_counter()
        await Client(application, body=PROMPT_BODY)
        took.append(time.perf_counter() - began_s)
    return took


def _tracer(url: str) -> Any:
    from torvyn._observe.spans import Tracer
    from torvyn.telemetry import OtlpExporter

    return Tracer(OtlpExporter(url, every_s=0.05, close_s=5.0), sample_rate=1.0)


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
    return port


def _prepare() -> None:
    for folder in (TESTS, TESTS / "transport"):
        if str(folder) not in sys.path:
            sys.path.insert(0, str(folder))


def lost(rounds: int) -> Measurement:
    _prepare()
    from collector import running_collector

    counts = []
    for _ in range(rounds):
        port = _free_port()
        tracer = _tracer(f"http://127.0.0.1:{port}")
        asyncio.run(_answer_times(tracer, ANSWERS))
        with running_collector(port) as collector:
            tracer.close()
        counts.append(float(ANSWERS - len(collector.spans)))
    return Measurement(sum(counts), counts, f"{ANSWERS} spans per round, sent after it came back")


def _spooled(folder: Path, spans: int, size_bytes: int) -> tuple[int, int]:
    """One process puts spans while the collector is away, another one sends them: how many of them
    arrive, and how many are counted as dropped."""
    from collector import running_collector
    from torvyn.protocol.traceparent import begin
    from torvyn.telemetry import OtlpExporter, Span

    port, options = _free_port(), {"spool": folder / "spool.db", "spool_bytes": 2 << 20}
    url = f"http://127.0.0.1:{port}"
    first = OtlpExporter(url, capacity=spans, batch=20, every_s=0.01, close_s=30.0, **options)
    for number in range(spans):
        first.put(Span(begin(), "answer", 1, 2, {"number": number, "text": "x" * size_bytes}))
    first.close()
    with running_collector(port) as collector:
        second = OtlpExporter(url, every_s=0.01, close_s=30.0, **options)
        collector.until(spans - first.dropped)
        second.close()
    numbers = [span["attributes"]["number"] for span in collector.spans]
    assert numbers == sorted(numbers)
    return len(set(numbers)), first.dropped + second.dropped


def restarted(rounds: int) -> Measurement:
    return _lost_by_restart(rounds, 10, ANSWERS, "below the limit")


def overfull(rounds: int) -> Measurement:
    return _lost_by_restart(rounds, 1000, 4 * ANSWERS, "four times the limit")


def _lost_by_restart(rounds: int, size_bytes: int, spans: int, detail: str) -> Measurement:
    _prepare()
    wrong = []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            arrived, dropped = _spooled(Path(folder), spans, size_bytes)
        wrong.append(float(abs(spans - arrived - dropped) + (dropped if size_bytes < 100 else 0)))
    return Measurement(sum(wrong), wrong, f"{spans} spans per round, {detail}")


def slower(rounds: int) -> Measurement:
    _prepare()
    from collector import running_collector

    ratios = []
    for _ in range(rounds):
        with running_collector() as collector:
            reachable, unreachable = (
                _tracer(collector.url),
                _tracer(f"http://127.0.0.1:{_free_port()}"),
            )
            took = asyncio.run(_by_turns(reachable, unreachable))
            reachable.close()
        unreachable.close()
        ratios.append(statistics.median(took[1]) / statistics.median(took[0]))
    return Measurement(statistics.median(ratios), ratios, "median answer, unreachable / reachable")


async def _by_turns(reachable: Any, unreachable: Any) -> tuple[list[float], list[float]]:
    took: tuple[list[float], list[float]] = ([], [])
    for _ in range(ANSWERS // TURN):
        for tracer, times in ((reachable, took[0]), (unreachable, took[1])):
            times.extend(await _answer_times(tracer, TURN))
    return took


CASES = [
    Case(
        "telemetry.lost",
        "the collector is unreachable",
        "closed port, opened before the queue is full",
        0,
        "spans lost",
        lost,
    ),
    Case(
        "telemetry.restart",
        "the collector is unreachable, and the process ends",
        "spooled on disk, sent in order by the next process",
        0,
        "spans lost",
        restarted,
    ),
    Case(
        "telemetry.overfull",
        "the same, with more than the spool holds",
        "the oldest are dropped",
        0,
        "spans neither sent nor counted as dropped",
        overfull,
    ),
    Case("telemetry.slower", "the same", "closed port", 1.1, "x the time of an answer", slower),
]
