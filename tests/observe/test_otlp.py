"""The exporter with a collector that is up, down, busy, silent or rejecting."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from collector import running_collector, wait_until
from torvyn._observe.otlp_exporter import OtlpExporter
from torvyn._observe.spans import Span
from torvyn.errors import UsageError
from torvyn.protocol.traceparent import Trace, begin

QUICK_S = 0.02


def span(number: int = 0, **more: Any) -> Span:
    return Span(begin(), f"answer {number}", 1_000, 2_000, {"number": number}, **more)


@contextmanager
def exporting(endpoint: str, **options: Any) -> Iterator[OtlpExporter]:
    exporter = OtlpExporter(endpoint, **{"every_s": QUICK_S, "close_s": 5.0, **options})
    try:
        yield exporter
    finally:
        exporter.close()


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
    return port


def test_a_span_arrives_as_opentelemetry_spells_it() -> None:
    trace = Trace("a" * 32, "b" * 16, "c" * 16)
    attributes = {"text": "ü", "whole": 3, "part": 0.5, "yes": True, "list": ["a", "b"]}
    sent = Span(trace, "chat support", 1, 2, attributes, "engine.upstream-cut", "it broke")
    with running_collector() as collector, exporting(collector.url) as exporter:
        exporter.put(sent)
        (got,) = collector.until(1)

    assert collector.paths == ["/v1/traces"]
    assert (got["traceId"], got["spanId"], got["parentSpanId"]) == ("a" * 32, "b" * 16, "c" * 16)
    assert (got["startTimeUnixNano"], got["endTimeUnixNano"], got["kind"]) == (1, 2, 2)
    assert got["attributes"] == {**attributes, "error.type": "engine.upstream-cut"}
    assert got["status"] == {"code": 2, "message": "it broke"}


def test_spans_go_together_and_in_order() -> None:
    with running_collector() as collector, exporting(collector.url, batch=50) as exporter:
        for number in range(500):
            exporter.put(span(number))
        got = collector.until(500)

    assert [one["attributes"]["number"] for one in got] == list(range(500))
    assert len(collector.bodies) < 100
    assert (exporter.sent, exporter.dropped) == (500, 0)


def test_spans_are_sent_later_if_the_collector_was_down() -> None:
    port = free_port()
    with exporting(f"http://127.0.0.1:{port}") as exporter:
        for number in range(100):
            exporter.put(span(number))
        with running_collector(port) as collector:
            got = collector.until(100)

    assert [one["attributes"]["number"] for one in got] == list(range(100))
    assert (exporter.sent, exporter.dropped) == (100, 0)


def test_spans_beyond_the_capacity_are_dropped_and_counted() -> None:
    port = free_port()
    with exporting(f"http://127.0.0.1:{port}", capacity=10) as exporter:
        for number in range(25):
            exporter.put(span(number))
        assert (exporter.queue_length, exporter.dropped) == (10, 15)
        with running_collector(port) as collector:
            got = collector.until(10)

    assert [one["attributes"]["number"] for one in got] == list(range(10))
    assert (exporter.sent, exporter.dropped) == (10, 15)


@pytest.mark.parametrize("status", [429, 503])
def test_a_request_to_a_busy_collector_is_retried(status: int) -> None:
    with running_collector() as collector, exporting(collector.url) as exporter:
        collector.statuses = [status, status]
        exporter.put(span())
        collector.until(1)

    assert len(collector.bodies) == 3
    assert (exporter.sent, exporter.dropped) == (1, 0)


def test_rejected_spans_are_not_sent_forever() -> None:
    with running_collector() as collector, exporting(collector.url) as exporter:
        collector.statuses = [400]
        exporter.put(span(1))
        wait_until(lambda: exporter.dropped)
        exporter.put(span(2))
        (got,) = collector.until(1)

    assert got["attributes"] == {"number": 2}
    assert (exporter.sent, exporter.dropped) == (1, 1)


def test_a_collector_that_never_answers_blocks_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        url = f"http://127.0.0.1:{deaf.getsockname()[1]}"
        exporter = OtlpExporter(url, every_s=QUICK_S, capacity=100, close_s=0.1)
        exporter.put(span())
        deaf.accept()
        began_s = time.perf_counter()
        for _ in range(1000):
            exporter.put(span())
        exporter.close()
        took_s = time.perf_counter() - began_s

    assert took_s < 1.0  # ten times what closing waits for
    assert exporter.dropped == 1001


def test_closing_sends_the_queued_spans() -> None:
    with running_collector() as collector:
        exporter = OtlpExporter(collector.url, every_s=3600.0, close_s=5.0)
        exporter.put(span(1))
        exporter.close()
        exporter.put(span(2))

    assert [one["attributes"]["number"] for one in collector.spans] == [1]
    assert (exporter.sent, exporter.dropped) == (1, 1)


@pytest.mark.parametrize(
    "endpoint",
    ["", "collector:4318", "ftp://x", "http://", "http://a:b@c", "http://c:x", "http://c?q=1"],
)
def test_an_invalid_address_is_rejected(endpoint: str) -> None:
    with pytest.raises(UsageError, match="not a plain http"):
        OtlpExporter(endpoint)


@pytest.mark.parametrize("path", ["", "/", "/v1/traces"])
def test_the_path_of_traces_is_added_where_it_is_missing(path: str) -> None:
    with running_collector() as collector, exporting(collector.url + path) as exporter:
        exporter.put(span())
        collector.until(1)

    assert collector.paths == ["/v1/traces"]
