"""What a process exports, by its settings: spans of answers, metrics and the span of a flow."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self
from urllib.parse import quote

from torvyn._observe.metrics import flow_metrics, process_metrics
from torvyn._observe.spans import Span, Tracer
from torvyn.errors import TorvynError
from torvyn.protocol.traceparent import begin

if TYPE_CHECKING:
    from torvyn._flow.flow import Flow
    from torvyn._flow.statistics import Statistics
    from torvyn._link.plan import TelemetryPlan
    from torvyn._observe.otlp_exporter import OtlpExporter

_CLOSE_S: Final = 4.0
"""How long a collector that does not answer may delay the end of a command."""


def make_exporter(plan: TelemetryPlan, name: str) -> OtlpExporter:
    """`name` is the process's: two with the same name cannot share a spool."""
    # Imported here: a process that exports nothing needs neither the exporter nor SQLite.
    from torvyn._observe.otlp_exporter import OtlpExporter

    exporter = OtlpExporter(
        plan.endpoint,
        protocol=plan.protocol,
        headers=plan.headers,
        spool=Path(plan.folder, quote(name, safe=""), "spool.db"),
        spool_bytes=plan.max_spool_bytes,
        metrics_every_s=plan.metrics_interval_s,
        close_s=_CLOSE_S,
    )
    exporter.collect(process_metrics)
    return exporter


def make_tracer(plan: TelemetryPlan | None) -> Tracer | None:
    """The tracer of a server; None if nothing is exported."""
    if plan is None:
        return None
    return Tracer(
        make_exporter(plan, "serve"),
        sample_rate=plan.sample_rate,
        latency_promote_s=plan.latency_promote_s,
    )


class FlowTelemetry:
    """Exports the metrics of a flow while it runs, and a span at its end."""

    def __init__(self, flow: Flow) -> None:
        plan = flow.plan.telemetry
        self._flow = flow
        self._exporter = None if plan is None else make_exporter(plan, flow.plan.name)
        self._start_ns = time.time_ns()
        self._trace = begin(sample_rate=1.0)
        if self._exporter is not None:
            self._exporter.collect(lambda: flow_metrics(flow.statistics))

    def ended(self, statistics: Statistics, state: str, error: BaseException | None) -> None:
        """Reports the run as a span."""
        if self._exporter is None:
            return
        attributes = {
            "flow": statistics.flow,
            "flow.state": state,
            "flow.produced": statistics.produced,
            "flow.emitted": statistics.emitted,
            "flow.filtered": statistics.filtered,
            "flow.dropped": statistics.dropped,
            "flow.errors": statistics.errors,
        }
        code = None if error is None else getattr(error, "code", type(error).__name__)
        # The message may quote data of the flow; the code does not.
        message = error.diagnostics[0].code if isinstance(error, TorvynError) else ""
        name, end_ns = f"flow {statistics.flow}", time.time_ns()
        self._exporter.put(
            Span(self._trace, name, self._start_ns, end_ns, attributes, code, message, "internal")
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._exporter is not None:
            self._exporter.close()
