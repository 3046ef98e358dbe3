"""What is reported when a call starts and ends: metrics, audit, recent answers, log and trace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from torvyn.transport.telemetry.call_span import record_span
from torvyn.transport.telemetry.request_log import log_stream

if TYPE_CHECKING:
    from torvyn._observe.spans import Tracer
    from torvyn.engine.service.service import Service
    from torvyn.transport.access.audit import Audit
    from torvyn.transport.call import Call
    from torvyn.transport.telemetry.instances import Instances
    from torvyn.transport.telemetry.metrics import Metrics


class CallReports:
    def __init__(
        self,
        metrics: Metrics,
        audit: Audit,
        instances: Instances,
        services: Mapping[str, Service],
        tracer: Tracer | None,
    ) -> None:
        self._metrics = metrics
        self._audit = audit
        self._instances = instances
        self._services = services
        self._tracer = tracer

    def started(self, call: Call) -> None:
        self._metrics.flows[call.flow].streams += 1
        self._audit.started(call)

    def ended(self, call: Call) -> None:
        metrics = self._metrics.flows[call.flow]
        metrics.streams -= 1
        usage, timing = call.answer.usage, call.answer.timing
        metrics.ended(call, usage, timing)
        self._audit.ended(call)
        summary = self._instances.ended(call, usage, timing)
        if not call.wire.keep(summary):
            log_stream(summary, call.trace.trace_id)
        if self._tracer is not None:
            record_span(self._tracer, call, self._services[call.flow].engine.name)
