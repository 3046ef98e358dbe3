"""Spans: one per reported answer, with its usage, times and end.

Answers are reported if their trace is sampled (head sampling), if they fail, or if they had to
wait. A span never contains the text of a prompt or an answer.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

from torvyn._observe.metrics import Collect
from torvyn.engine.timing import otel
from torvyn.errors import TorvynError
from torvyn.protocol.traceparent import Trace

if TYPE_CHECKING:
    from torvyn.engine.answer.answer import Answer

_REQUEST_FIELDS: Final = ("max_tokens", "temperature", "top_p", "seed")


@dataclass(frozen=True, slots=True)
class Span:
    """One answer, or one run of a flow."""

    trace: Trace
    name: str
    start_ns: int
    end_ns: int
    attributes: Mapping[str, Any] = field(default_factory=dict)
    error: str | None = None
    """The error code, if the answer failed."""
    message: str = ""
    kind: str = "server"
    """`server` for a request that was answered, `internal` for other work."""


class Exporter(Protocol):
    """Sends spans and metrics; `put` never blocks."""

    @property
    def sent(self) -> int: ...

    @property
    def dropped(self) -> int: ...

    def put(self, span: Span) -> None: ...

    def collect(self, collect: Collect) -> None:
        """Metrics to send from time to time."""

    def close(self) -> None: ...


class Tracer:
    """Reports answers to an exporter."""

    def __init__(
        self, exporter: Exporter, *, sample_rate: float = 0.01, latency_promote_s: float = 0.01
    ) -> None:
        """`sample_rate` is the share of traces that begin here; an answer that waited for its
        engine for `latency_promote_s` is always reported."""
        self.exporter = exporter
        self.sample_rate = sample_rate
        self._promote_s = latency_promote_s

    def record_answer(
        self,
        trace: Trace,
        answer: Answer,
        *,
        flow: str,
        attributes: Mapping[str, Any],
        failure: TorvynError | None = None,
        message: str = "",
    ) -> None:
        """Reports an answer that has ended, with further attributes; empty ones are left out."""
        figures = answer.timing
        has_waited = figures.get("queue_s", figures["duration_s"]) >= self._promote_s
        if not (trace.is_sampled or failure is not None or has_waited):
            return
        operation = operation_name(answer)
        attributes = {
            "gen_ai.operation.name": operation,
            "gen_ai.request.model": flow,
            **_request_attributes(answer),
            **otel(figures),
            **{name: value for name, value in attributes.items() if value},
        }
        end_ns = time.time_ns()
        start_ns = end_ns - int(figures["duration_s"] * 1e9)
        error = None if failure is None else failure.code
        span = Span(trace, f"{operation} {flow}", start_ns, end_ns, attributes, error, message)
        self.exporter.put(span)

    def close(self) -> None:
        self.exporter.close()


def operation_name(answer: Answer) -> str:
    """OpenTelemetry's name for the operation."""
    return "chat" if answer.request.prompt is None else "text_completion"


def _request_attributes(answer: Answer) -> dict[str, Any]:
    request = answer.request
    fields = {f"gen_ai.request.{name}": getattr(request, name) for name in _REQUEST_FIELDS}
    fields["gen_ai.request.choice.count"] = request.n if request.n > 1 else None
    return {name: value for name, value in fields.items() if value is not None}
