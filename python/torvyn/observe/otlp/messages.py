"""Spans and metrics as OTLP's export requests (protobuf).

The numbers are those of the fields in opentelemetry-proto 1.x, which never change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from torvyn.observe.metrics import Histogram, Metric, Point
from torvyn.observe.otlp.wire import (
    field_bytes,
    field_double,
    field_fixed64,
    field_int,
    field_text,
    fields,
    packed_doubles,
    packed_fixed64,
)
from torvyn.observe.spans import Span

_KINDS: Final = {"internal": 1, "server": 2}
_STATUS_ERROR: Final = 2
_CUMULATIVE: Final = 2
_SCOPE: Final = field_text(1, "torvyn")


def traces_request(spans: Iterable[Span], resource: Mapping[str, Any]) -> bytes:
    """ExportTraceServiceRequest."""
    encoded = b"".join(field_bytes(2, _span(span)) for span in spans)
    return _request(encoded, resource)


def metrics_request(
    metrics: Iterable[Metric], resource: Mapping[str, Any], start_ns: int, now_ns: int
) -> bytes:
    """ExportMetricsServiceRequest. Sums count from `start_ns` on."""
    encoded = b"".join(field_bytes(2, _metric(metric, start_ns, now_ns)) for metric in metrics)
    return _request(encoded, resource)


def rejected_count(response: bytes) -> int:
    """How many items a collector says it did not accept; 0 if the response is not understood."""
    try:
        for number, partial_success in fields(response):
            if number == 1 and isinstance(partial_success, bytes):
                counts = [value for field, value in fields(partial_success) if field == 1]
                return counts[-1] if counts and isinstance(counts[-1], int) else 0
    except ValueError:
        pass
    return 0


def _request(encoded: bytes, resource: Mapping[str, Any]) -> bytes:
    scope = field_bytes(1, _SCOPE) + encoded
    record = field_bytes(1, _attributes(1, resource)) + field_bytes(2, scope)
    return field_bytes(1, record)


def _span(span: Span) -> bytes:
    error = {} if span.error is None else {"error.type": span.error}
    parts = [
        field_bytes(1, bytes.fromhex(span.trace.trace_id)),
        field_bytes(2, bytes.fromhex(span.trace.span_id)),
        field_bytes(4, bytes.fromhex(span.trace.parent_id)) if span.trace.parent_id else b"",
        field_text(5, span.name),
        field_int(6, _KINDS[span.kind]),
        field_fixed64(7, span.start_ns),
        field_fixed64(8, span.end_ns),
        _attributes(9, {**span.attributes, **error}),
    ]
    if span.error is not None:
        parts.append(field_bytes(15, field_text(2, span.message) + field_int(3, _STATUS_ERROR)))
    return b"".join(parts)


def _metric(metric: Metric, start_ns: int, now_ns: int) -> bytes:
    head = field_text(1, metric.name) + field_text(2, metric.doc) + field_text(3, metric.unit)
    if metric.kind == "histogram":
        points = b"".join(field_bytes(1, _histogram(p, start_ns, now_ns)) for p in metric.points)
        return head + field_bytes(9, points + field_int(2, _CUMULATIVE))
    points = b"".join(field_bytes(1, _number(p, start_ns, now_ns)) for p in metric.points)
    if metric.kind == "gauge":
        return head + field_bytes(5, points)
    return head + field_bytes(7, points + field_int(2, _CUMULATIVE) + field_int(3, 1))


def _number(point: Point, start_ns: int, now_ns: int) -> bytes:
    times = field_fixed64(2, start_ns) + field_fixed64(3, now_ns)
    if isinstance(point.value, float):
        value = field_double(4, point.value)
    else:
        assert isinstance(point.value, int)
        value = field_fixed64(6, point.value)
    return times + value + _attributes(7, point.attributes)


def _histogram(point: Point, start_ns: int, now_ns: int) -> bytes:
    found = point.value
    assert isinstance(found, Histogram)
    return (
        field_fixed64(2, start_ns)
        + field_fixed64(3, now_ns)
        + field_fixed64(4, sum(found.counts))
        + field_double(5, found.total)
        + packed_fixed64(6, found.counts)
        + packed_doubles(7, found.bounds)
        + _attributes(9, point.attributes)
    )


def _attributes(number: int, attributes: Mapping[str, Any]) -> bytes:
    return b"".join(
        field_bytes(number, field_text(1, name) + field_bytes(2, _value(value)))
        for name, value in attributes.items()
    )


def _value(value: Any) -> bytes:
    if isinstance(value, bool):
        return field_int(2, int(value))
    if isinstance(value, int) and -(1 << 63) <= value < 1 << 63:
        return field_int(3, value)
    if isinstance(value, float):
        return field_double(4, value)
    if isinstance(value, (list, tuple)):
        return field_bytes(5, b"".join(field_bytes(1, _value(item)) for item in value))
    return field_text(1, str(value))
