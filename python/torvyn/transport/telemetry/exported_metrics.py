"""The metrics of a server for a collector: the figures of `/metrics`, by OpenTelemetry's names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from torvyn._observe.metrics import Kind, Metric, Point
from torvyn.transport.telemetry.metrics import HISTOGRAMS, SERVER_METRICS, Metrics

_HISTOGRAM_NAMES: Final = {
    "gen_ai_server_time_to_first_token_seconds": ("gen_ai.server.time_to_first_token", "s"),
    "gen_ai_server_time_per_output_token_seconds": ("gen_ai.server.time_per_output_token", "s"),
    "gen_ai_server_request_duration_seconds": ("gen_ai.server.request.duration", "s"),
    "torvyn_inter_token_seconds": ("flow.inter_token", "s"),
    "torvyn_queue_seconds": ("flow.queue", "s"),
    "torvyn_output_tokens": ("flow.output_tokens", "{token}"),
}


def exported_metrics(metrics: Metrics, server_metrics: Mapping[str, int]) -> list[Metric]:
    """Called on the exporter's thread while the event loop counts: dicts are copied first."""
    return [
        _requests(metrics),
        *_flows(metrics),
        *_histograms(metrics),
        *_server(server_metrics),
    ]


def _requests(metrics: Metrics) -> Metric:
    points = [
        Point(count, {"method": method, "route": route, "status": str(status)})
        for (method, route, status), count in dict(metrics.requests).items()
    ]
    doc = "Requests by method, route and status."
    return Metric("system.requests", "sum", "{request}", doc, points)


def _flows(metrics: Metrics) -> Iterator[Metric]:
    flows = metrics.flows.items()
    streams = [Point(flow.streams, {"flow": name}) for name, flow in flows]
    yield Metric("flow.streams", "gauge", "{answer}", "Running answers.", streams)
    for figure in ("prompt_tokens", "completion_tokens"):
        points = [Point(getattr(flow, figure), {"flow": name}) for name, flow in flows]
        yield Metric(f"flow.{figure}", "sum", "{token}", "", points)
    choices = [
        Point(count, {"flow": name, "finish": reason})
        for name, flow in flows
        for reason, count in dict(flow.answers).items()
    ]
    yield Metric("flow.choices", "sum", "{choice}", "Choices by finish reason.", choices)
    failures = [
        Point(count, {"flow": name, "code": code})
        for name, flow in flows
        for code, count in dict(flow.errors).items()
    ]
    yield Metric("flow.failures", "sum", "{answer}", "Failed answers by error code.", failures)


def _histograms(metrics: Metrics) -> Iterator[Metric]:
    for key, (name, unit) in _HISTOGRAM_NAMES.items():
        label = "gen_ai.request.model" if name.startswith("gen_ai.") else "flow"
        points = [
            Point(flow.histograms[key].snapshot(), {label: flow_name})
            for flow_name, flow in metrics.flows.items()
        ]
        yield Metric(name, "histogram", unit, HISTOGRAMS[key][2], points)


def _server(server_metrics: Mapping[str, int]) -> Iterator[Metric]:
    for key, value in server_metrics.items():
        kind: Kind = "sum" if key.endswith("_total") else "gauge"
        name = key.removeprefix("torvyn_").removesuffix("_total")
        yield Metric(f"system.{name}", kind, "1", SERVER_METRICS[key], [Point(value)])
