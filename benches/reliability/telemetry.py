"""What holds when the collector of traces is away?"""

from __future__ import annotations

import asyncio
import socket
import statistics
import sys
import time
from typing import Any

from benches.reliability.line import Line, Measured
from benches.reliability.setting import TESTS

ANSWERS = 1000
"""A round; fewer than the exporter keeps."""
TURN = 25
"""Answers before the other one has its turn."""


async def _answered(tracer: Any, count: int) -> list[float]:
    """Seconds of each of so many answers, one after the other."""
    from asgi_client import ASKED, Client

    from torvyn.engine import Scripted, Service
    from torvyn.transport import ServerSettings, app

    application = app({"chat": Service("chat", Scripted("one two"))}, ServerSettings(), tracer)
    took: list[float] = []
    for _ in range(count):
        began_s = time.perf_counter()
        await Client(application, body=ASKED)
        took.append(time.perf_counter() - began_s)
    return took


def _tracer(url: str) -> Any:
    from torvyn.observe.otlp import OtlpExporter
    from torvyn.observe.spans import Tracer

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


def lost(rounds: int) -> Measured:
    _prepare()
    from collector import collecting

    counts = []
    for _ in range(rounds):
        port = _free_port()
        tracer = _tracer(f"http://127.0.0.1:{port}")
        asyncio.run(_answered(tracer, ANSWERS))
        with collecting(port) as collector:
            tracer.close()
        counts.append(float(ANSWERS - len(collector.spans)))
    return Measured(sum(counts), counts, f"{ANSWERS} spans a round, sent when it was back")


def slower(rounds: int) -> Measured:
    _prepare()
    from collector import collecting

    ratios = []
    for _ in range(rounds):
        with collecting() as collector:
            there, away = _tracer(collector.url), _tracer(f"http://127.0.0.1:{_free_port()}")
            took = asyncio.run(_by_turns(there, away))
            there.close()
        away.close()
        ratios.append(statistics.median(took[1]) / statistics.median(took[0]))
    return Measured(statistics.median(ratios), ratios, "median answer, away by there")


async def _by_turns(there: Any, away: Any) -> tuple[list[float], list[float]]:
    took: tuple[list[float], list[float]] = ([], [])
    for _ in range(ANSWERS // TURN):
        for tracer, kept in ((there, took[0]), (away, took[1])):
            kept.extend(await _answered(tracer, TURN))
    return took


LINES = [
    Line(
        "telemetry.lost",
        "collector away",
        "closed port; it comes back before the queue is full",
        0,
        "spans lost",
        lost,
    ),
    Line("telemetry.slower", "the same", "closed port", 1.1, "x the time of an answer", slower),
]
