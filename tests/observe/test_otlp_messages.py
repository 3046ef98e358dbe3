"""OpenTelemetry's own messages read what the exporter writes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as metrics_pb
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as trace_pb

from torvyn._observe.metrics import Histogram, Metric, Point, process_metrics
from torvyn._observe.otlp_messages import metrics_request, rejected_count, traces_request
from torvyn._observe.spans import Span
from torvyn.protocol.traceparent import Trace, begin

RESOURCE = {"service.name": "torvyn"}
VALUES = st.recursive(
    st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=("Cs",))),
    lambda value: st.lists(value, max_size=3),
    max_leaves=5,
)


def plain(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [plain(item) for item in value.array_value.values]
    return getattr(value, kind)


def attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: plain(pair.value) for pair in pairs}


@given(st.dictionaries(st.text(st.characters(exclude_categories=("Cs",))), VALUES, max_size=5))
def test_every_attribute_is_read_as_it_was_written(values: dict[str, Any]) -> None:
    request = trace_pb.ExportTraceServiceRequest.FromString(
        traces_request([Span(begin(), "name", 1, 2, values)], RESOURCE)
    )

    (span,) = request.resource_spans[0].scope_spans[0].spans
    assert attributes(span.attributes) == values


def test_a_span_is_read_as_it_was_written() -> None:
    trace = Trace("a" * 32, "b" * 16, "c" * 16)
    sent = Span(trace, "näme", 5, 2**63, {}, "engine.failed", "why", "internal")
    request = trace_pb.ExportTraceServiceRequest.FromString(traces_request([sent] * 3, RESOURCE))

    (resource,) = request.resource_spans
    span = resource.scope_spans[0].spans[2]
    assert attributes(resource.resource.attributes) == RESOURCE
    assert (span.trace_id.hex(), span.span_id.hex()) == ("a" * 32, "b" * 16)
    assert (span.parent_span_id.hex(), span.name, span.kind) == ("c" * 16, "näme", 1)
    assert (span.start_time_unix_nano, span.end_time_unix_nano) == (5, 2**63)
    assert (span.status.code, span.status.message) == (2, "why")


def read_metrics(*metrics: Metric) -> Any:
    body = metrics_request(metrics, RESOURCE, 10, 20)
    request = metrics_pb.ExportMetricsServiceRequest.FromString(body)
    return request.resource_metrics[0].scope_metrics[0].metrics


@pytest.mark.parametrize("value", [0, -5, 2**62, 0.25])
def test_a_sum_and_a_gauge_are_read_as_they_were_written(value: float) -> None:
    points = [Point(value, {"flow": "main"})]
    total, gauge = read_metrics(
        Metric("a", "sum", "By", "doc", points), Metric("b", "gauge", "s", "", points)
    )

    assert (total.name, total.unit, total.description) == ("a", "By", "doc")
    assert (total.sum.is_monotonic, total.sum.aggregation_temporality) == (True, 2)
    for (point,) in (total.sum.data_points, gauge.gauge.data_points):
        assert getattr(point, "as_double" if isinstance(value, float) else "as_int") == value
        assert (point.start_time_unix_nano, point.time_unix_nano) == (10, 20)
        assert attributes(point.attributes) == {"flow": "main"}


def test_a_histogram_is_read_as_it_was_written() -> None:
    value = Histogram((0.5, 1.0), (3, 0, 2), 7.5)
    (metric,) = read_metrics(Metric("h", "histogram", "s", "", [Point(value)]))

    (point,) = metric.histogram.data_points
    assert (point.count, point.sum) == (5, 7.5)
    assert (list(point.bucket_counts), list(point.explicit_bounds)) == ([3, 0, 2], [0.5, 1.0])


def test_the_process_measures_itself() -> None:
    metrics = {metric.name: metric for metric in read_metrics(*process_metrics())}

    assert metrics["system.memory"].gauge.data_points[0].as_int > 1 << 20
    assert metrics["system.cpu_time"].sum.data_points[0].as_double > 0


def test_the_rejected_items_of_a_response_are_counted() -> None:
    response = trace_pb.ExportTraceServiceResponse()
    assert rejected_count(response.SerializeToString()) == 0
    response.partial_success.rejected_spans = 7
    response.partial_success.error_message = "too old"

    assert rejected_count(response.SerializeToString()) == 7


@given(st.binary(max_size=50))
def test_any_bytes_are_a_response(data: bytes) -> None:
    assert rejected_count(data) >= 0
