"""Spans and metrics of a program, sent to a collector that speaks OTLP.

    exporter = OtlpExporter("http://127.0.0.1:4318", spool=Path("telemetry/spool.db"))
    exporter.collect(lambda: flow_metrics(flow.statistics))

A flow that runs from the shell sends its own: see the settings `telemetry` of the manifest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torvyn._lazy import attach

if TYPE_CHECKING:
    from torvyn._observe.metrics import Histogram, Metric, Point, flow_metrics
    from torvyn._observe.otlp_exporter import OtlpExporter
    from torvyn._observe.spans import Span

__all__ = ["Histogram", "Metric", "OtlpExporter", "Point", "Span", "flow_metrics"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = attach(
        __name__,
        dict.fromkeys(__all__, "torvyn._observe.metrics")
        | {"OtlpExporter": "torvyn._observe.otlp_exporter", "Span": "torvyn._observe.spans"},
    )
