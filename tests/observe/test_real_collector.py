"""The OpenTelemetry Collector accepts what the exporter sends, also after it was away.

Needs the program `otelcol` in the PATH, or named by TORVYN_OTELCOL: built by OpenTelemetry's
`builder` with `otlpreceiver`, `debugexporter`, `fileprovider` and `envprovider`. Passes with 0.158.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import missing
import pytest

from collector import wait_until
from torvyn._observe.metrics import Metric, Point
from torvyn._observe.otlp_exporter import OtlpExporter
from torvyn._observe.spans import Span
from torvyn.protocol.traceparent import begin

PROGRAM = os.environ.get("TORVYN_OTELCOL") or shutil.which("otelcol")
CONFIG = """
receivers:
  otlp:
    protocols:
      http: {{ endpoint: "127.0.0.1:{http}" }}
      grpc: {{ endpoint: "127.0.0.1:{grpc}" }}
exporters:
  debug: {{ verbosity: detailed }}
service:
  telemetry: {{ metrics: {{ level: none }} }}
  pipelines:
    traces: {{ receivers: [otlp], exporters: [debug] }}
    metrics: {{ receivers: [otlp], exporters: [debug] }}
"""

pytestmark = missing.needs("otelcol", is_there=PROGRAM is not None)


class Otelcol:
    """A collector on fixed ports, which prints what it receives to a file."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as one, socket.socket() as other:
            one.bind(("127.0.0.1", 0))
            other.bind(("127.0.0.1", 0))
            self.ports = {"http": one.getsockname()[1], "grpc": other.getsockname()[1]}
        self._config, self._log = folder / "config.yaml", folder / "log"
        self._config.write_text(CONFIG.format(**self.ports))

    @contextmanager
    def running(self) -> Iterator[None]:
        assert PROGRAM is not None
        with self._log.open("a") as log:
            command = [PROGRAM, f"--config=file:{self._config}"]
            process = subprocess.Popen(command, stdout=log, stderr=log)
            try:
                wait_until(lambda: self.text().count("Everything is ready"))
                yield
            finally:
                process.terminate()
                process.wait(10)

    def text(self) -> str:
        return self._log.read_text() if self._log.exists() else ""

    def numbers(self) -> list[int]:
        return [int(number) for number in re.findall(r"-> number: Int\((\d+)\)", self.text())]


def make_exporter(otelcol: Otelcol, protocol: str, spool: Path) -> OtlpExporter:
    url = f"http://127.0.0.1:{otelcol.ports[protocol]}"
    exporter = OtlpExporter(url, protocol=protocol, spool=spool, every_s=0.05, close_s=10.0)
    exporter.collect(lambda: [Metric("test.value", "sum", "1", "A figure.", [Point(42)])])
    return exporter


@pytest.mark.promise("edge.buffered-telemetry", "edge.telemetry")
@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_spans_and_metrics_arrive_although_the_collector_was_away(
    tmp_path: Path, protocol: str
) -> None:
    otelcol = Otelcol(tmp_path)
    exporter = make_exporter(otelcol, protocol, tmp_path / "spool.db")
    for number in range(600):
        exporter.put(Span(begin(), "answer", 1, 2, {"number": number}))
    wait_until(lambda: exporter.queue_length == 0)
    with otelcol.running():
        wait_until(lambda: len(otelcol.numbers()) >= 600)
        exporter.close()

    assert otelcol.numbers() == list(range(600))
    assert "-> Name: test.value" in otelcol.text()
    assert (exporter.sent, exporter.dropped) == (600, 0)
