"""`torvyn run` exports the metrics of its flow and a span per run; the flow does not notice."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from collector import Collector, running_collector, running_grpc_collector

MANIFEST = """
[torvyn]
name = "readings"
version = "0.1.0"
contract_version = "0.1.0"
[observability]
exporter = "otlp-{protocol}"
endpoint = "{endpoint}"
[flow.main.nodes.source]
component = "lines"
config = "readings.txt"
[flow.main.nodes.check]
component = "blocklist"
config = {{ words = "bad" }}
[flow.main.nodes.sink]
component = "null"
[[flow.main.edges]]
from = "source"
to = "check"
[[flow.main.edges]]
from = "check"
to = "sink"
"""


def run(folder: Path, endpoint: str, protocol: str = "http") -> subprocess.CompletedProcess[str]:
    (folder / "readings.txt").write_text("good\nbad\ngood\n")
    (folder / "Torvyn.toml").write_text(MANIFEST.format(endpoint=endpoint, protocol=protocol))
    command = [sys.executable, "-m", "torvyn", "run"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)


def last(collector: Collector, name: str, **labels: str) -> Any:
    """The last value of a metric."""
    points = [p for p in collector.metrics if p["name"] == name]
    return [p["value"] for p in points if labels.items() <= p["attributes"].items()][-1]


def has_runs(collector: Collector, count: int) -> bool:
    """Whether spans and metrics of so many runs have arrived. On a busy machine the answer to a
    request may come too late: then it is sent again, and its span arrives twice."""
    spans = {span["spanId"] for span in collector.spans}
    emitted = [point for point in collector.metrics if point["name"] == "flow.emitted"]
    return min(len(spans), len(emitted)) >= count


@pytest.mark.promise("edge.telemetry")
@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_the_last_metrics_of_a_run_are_those_of_its_end(tmp_path: Path, protocol: str) -> None:
    running = running_collector if protocol == "http" else running_grpc_collector
    with running() as collector:
        # On a busy machine the collector may answer too late; then a later run sends it all.
        while not collector.metrics:
            run(tmp_path, collector.url, protocol)

    assert last(collector, "flow.produced", flow="main") == 3
    assert last(collector, "flow.filtered", flow="main") == 1
    assert last(collector, "component.received", component="check", role="filter") == 3
    assert last(collector, "component.passed", component="sink") == 2
    assert last(collector, "stream.taken", source="check", target="sink") == 2
    assert last(collector, "pool.live") == 0
    assert last(collector, "system.memory") > 0


@pytest.mark.promise("edge.telemetry")
def test_a_run_is_a_span(tmp_path: Path) -> None:
    with running_collector() as collector:
        while not collector.spans:
            run(tmp_path, collector.url)

    span = collector.spans[0]
    assert (span["name"], span["kind"]) == ("flow main", 1)
    assert span["attributes"]["flow.state"] == "completed"
    assert (span["attributes"]["flow.produced"], span["attributes"]["flow.emitted"]) == (3, 2)


@pytest.mark.promise("edge.buffered-telemetry")
def test_runs_without_a_collector_are_reported_by_a_later_one(tmp_path: Path) -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    for _ in range(2):
        result = run(tmp_path, f"http://127.0.0.1:{port}")
        assert "cannot be reached" in result.stderr
        assert "3 elements" in result.stderr or "completed" in result.stderr

    with running_collector(port) as collector:
        while not has_runs(collector, 3):
            run(tmp_path, collector.url)

    assert {span["attributes"]["flow.produced"] for span in collector.spans} == {3}
