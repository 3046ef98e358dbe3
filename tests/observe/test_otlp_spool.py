"""Telemetry survives a collector that is away, and restarts; losses are counted exactly."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from collector import running_collector, running_grpc_collector, wait_until
from torvyn._durable.disk.store import DurableStore
from torvyn._observe.metrics import Metric, Point
from torvyn._observe.otlp_exporter import OtlpExporter
from torvyn._observe.otlp_spool import Spool
from torvyn._observe.spans import Span
from torvyn.protocol.traceparent import begin

MIB = 1 << 20


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
    return port


def span(number: int, padding: str = "") -> Span:
    return Span(begin(), "answer", 1, 2, {"number": number, "padding": padding})


def numbers(spans: list[dict[str, Any]]) -> list[int]:
    return [one["attributes"]["number"] for one in spans]


@contextmanager
def exporting(port: int, spool: Path, **options: Any) -> Iterator[OtlpExporter]:
    exporter = OtlpExporter(
        f"http://127.0.0.1:{port}",
        spool=spool,
        **{"every_s": 0.02, "close_s": 10.0, "batch": 50, **options},
    )
    try:
        yield exporter
    finally:
        exporter.close()


@pytest.mark.promise("edge.buffered-telemetry")
@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_a_later_process_sends_what_an_earlier_one_could_not(tmp_path: Path, protocol: str) -> None:
    port, path = free_port(), tmp_path / "spool.db"
    with exporting(port, path, protocol=protocol) as first:
        for number in range(500):
            first.put(span(number))
    assert (first.sent, first.dropped) == (0, 0)

    running = running_collector if protocol == "http" else running_grpc_collector
    with running(port) as collector, exporting(port, path, protocol=protocol) as second:
        second.put(span(500))
        got = collector.until(501)

    assert numbers(got) == list(range(501))
    assert (second.sent, second.dropped) == (501, 0)


def test_the_spool_is_emptied_oldest_first_once_the_collector_is_back(tmp_path: Path) -> None:
    port, path = free_port(), tmp_path / "spool.db"
    with exporting(port, path) as exporter:
        for number in range(300):
            exporter.put(span(number))
        wait_until(lambda: exporter.queue_length == 0)
        with running_collector(port) as collector:
            collector.until(300)
            exporter.put(span(300))
            got = collector.until(301)

    assert numbers(got) == list(range(301))
    assert (exporter.sent, exporter.dropped) == (301, 0)


def test_above_the_limit_the_oldest_spans_are_dropped_and_counted(tmp_path: Path) -> None:
    port, path, total = free_port(), tmp_path / "spool.db", 4_000
    options = {"spool_bytes": 2 * MIB, "capacity": total, "batch": 20}
    with exporting(port, path, **options) as exporter:
        for number in range(total):
            exporter.put(span(number, "x" * 1000))
        wait_until(lambda: exporter.queue_length == 0)
        assert exporter.dropped > total / 2
        with running_collector(port) as collector:
            got = numbers(collector.until(total - exporter.dropped))

    assert got == list(range(exporter.dropped, total))
    assert exporter.sent + exporter.dropped == total


SPOOLING = """
import sys, time
sys.path.insert(0, sys.argv[3])
from test_otlp_spool import *
with exporting(int(sys.argv[1]), Path(sys.argv[2])) as exporter:
    for number in range(200):
        exporter.put(span(number))
    wait_until(lambda: exporter.queue_length == 0)
    print("spooled", flush=True)
    time.sleep(60)
"""


def test_spans_that_were_spooled_survive_kill_9(tmp_path: Path) -> None:
    port, path, here = free_port(), tmp_path / "spool.db", Path(__file__).parent
    environment = {**os.environ, "PYTHONPATH": str(here.parent)}
    command = [sys.executable, "-c", SPOOLING, str(port), str(path), str(here)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"spooled\n"
        process.send_signal(signal.SIGKILL)

    with running_collector(port) as collector, exporting(port, path):
        assert numbers(collector.until(200)) == list(range(200))


def test_metrics_are_spooled_too(tmp_path: Path) -> None:
    port, path = free_port(), tmp_path / "spool.db"
    with exporting(port, path, metrics_every_s=0.01) as exporter:
        values = iter(range(10_000))
        exporter.collect(lambda: [Metric("test.value", "sum", "1", "", [Point(next(values))])])
        wait_until(path.exists)
        with running_collector(port) as collector:
            wait_until(lambda: len(collector.metrics) > 20)

    got = [point["value"] for point in collector.metrics]
    assert got == list(range(len(got)))
    assert exporter.points_sent == len(got)
    assert exporter.dropped_of("metrics") == 0


def test_no_spool_is_created_while_the_collector_is_there(tmp_path: Path) -> None:
    path = tmp_path / "telemetry" / "spool.db"
    with running_collector() as collector:
        port = int(collector.url.rpartition(":")[2])
        with exporting(port, path) as exporter:
            exporter.put(span(1))
            collector.until(1)

    assert not path.parent.exists()


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_every_request_has_the_headers(tmp_path: Path, protocol: str) -> None:
    running = running_collector if protocol == "http" else running_grpc_collector
    with running() as collector:
        port = int(collector.url.rpartition(":")[2])
        options = {"protocol": protocol, "headers": "api-key=a%20b, X-Tenant=7"}
        with exporting(port, tmp_path / "spool.db", **options) as exporter:
            exporter.put(span(1))
            collector.until(1)

    assert (collector.headers["api-key"], collector.headers["x-tenant"]) == ("a b", "7")


def test_a_spool_that_another_process_has_is_not_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "spool.db"
    other = Spool(path, 2 * MIB)
    with exporting(free_port(), path, close_s=0.2) as exporter:
        exporter.put(span(1))
        wait_until(lambda: "kept in memory only" in caplog.text)
    other.close()

    assert exporter.dropped == 1


def test_a_collector_that_never_answers_delays_the_end_but_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "spool.db"
    deaf = socket.create_server(("127.0.0.1", 0))
    with deaf, exporting(deaf.getsockname()[1], path, close_s=1.0) as exporter:
        for number in range(100):
            exporter.put(span(number))
        deaf.accept()
    assert exporter.dropped == 0

    with DurableStore.open(path, {}) as store:
        assert store.statistics("traces").elements == 100


@pytest.mark.parametrize(("status", "sent"), [(14, 1), (8, 1), (3, 0), (16, 0)])
def test_grpc_errors_are_retried_or_final(tmp_path: Path, status: int, sent: int) -> None:
    with running_grpc_collector() as collector:
        collector.statuses = [status]
        port = int(collector.url.rpartition(":")[2])
        with exporting(port, tmp_path / "spool.db", protocol="grpc") as exporter:
            exporter.put(span(1))
            wait_until(lambda: exporter.sent + exporter.dropped)

    assert (exporter.sent, exporter.dropped) == (sent, 1 - sent)
