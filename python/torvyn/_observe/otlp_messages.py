"""Spans and metrics as OTLP's export requests (protobuf).

The numbers are those of the fields in opentelemetry-proto 1.x, which never change. Fields are
encoded here, as far as OTLP needs it: the generated messages would add a dependency, 3 MiB and
0.1 s to every process that exports.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from torvyn._observe.metrics import Histogram, Metric, Point
from torvyn._observe.spans import Span

_VARINT: Final = 0

_FIXED64: Final = 1

_BYTES: Final = 2

_FIXED32: Final = 5


def varint(value: int) -> bytes:
    """Negative numbers take ten bytes, as in two's complement."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def field_int(number: int, value: int) -> bytes:
    return varint(number << 3 | _VARINT) + varint(value)


def field_bytes(number: int, value: bytes) -> bytes:
    return varint(number << 3 | _BYTES) + varint(len(value)) + value


def field_text(number: int, value: str) -> bytes:
    """Lone surrogates have no UTF-8 form; they become question marks."""
    return field_bytes(number, value.encode("utf-8", "replace"))


def field_fixed64(number: int, value: int) -> bytes:
    """For fixed64 and sfixed64."""
    return varint(number << 3 | _FIXED64) + struct.pack("<Q", value & ((1 << 64) - 1))


def field_double(number: int, value: float) -> bytes:
    return varint(number << 3 | _FIXED64) + struct.pack("<d", value)


def packed_doubles(number: int, values: Iterable[float]) -> bytes:
    return field_bytes(number, b"".join(struct.pack("<d", value) for value in values))


def packed_fixed64(number: int, values: Iterable[int]) -> bytes:
    return field_bytes(number, b"".join(struct.pack("<Q", value) for value in values))


def fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message: the number, and an int or the bytes. Raises ValueError."""
    at = 0
    while at < len(message):
        key, at = _read_varint(message, at)
        kind = key & 7
        if kind == _VARINT:
            value: int | bytes
            value, at = _read_varint(message, at)
        elif kind in (_FIXED64, _FIXED32, _BYTES):
            size = {_FIXED64: 8, _FIXED32: 4}.get(kind)
            if size is None:
                size, at = _read_varint(message, at)
            value = message[at : at + size]
            at += size
            if len(value) < size:
                raise ValueError("the message ends within a field")
        else:
            raise ValueError(f"unknown wire type {kind}")
        yield key >> 3, value


def _read_varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(message) and shift < 70:
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
    raise ValueError("the message ends within a number")


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
