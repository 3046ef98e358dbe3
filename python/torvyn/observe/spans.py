"""Spans: one for every answer that is told of, with what it cost and how it ended.

Which are told of is decided by the trace (head sampling), and afterwards for those that failed or
had to wait. A span never holds what was asked or answered.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

from torvyn.engine.timing import otel
from torvyn.errors import TorvynError
from torvyn.protocol.traceparent import Trace

if TYPE_CHECKING:
    from torvyn.engine.answer.answer import Answer
    from torvyn.manifest import Settings

_ASKED: Final = ("max_tokens", "temperature", "top_p", "seed")


@dataclass(frozen=True, slots=True)
class Span:
    """What is told of one answer."""

    trace: Trace
    name: str
    start_ns: int
    end_ns: int
    attributes: Mapping[str, Any] = field(default_factory=dict)
    error: str | None = None
    """The code of what went wrong; None: nothing did."""
    message: str = ""


class Exporter(Protocol):
    """Takes spans and never makes anybody wait."""

    sent: int
    dropped: int

    def put(self, span: Span) -> None: ...

    def close(self) -> None: ...


class Tracer:
    """Tells an exporter of answers."""

    def __init__(
        self, exporter: Exporter, *, sample_rate: float = 0.01, latency_promote_s: float = 0.01
    ) -> None:
        """`sample_rate` is the share of traces that begin here; an answer that waited
        `latency_promote_s` before its engine worked on it is told of in any case."""
        self.exporter = exporter
        self.sample_rate = sample_rate
        self._promote_s = latency_promote_s

    @classmethod
    def of(cls, settings: Settings) -> Self | None:
        """As `[observability]` says; None when nothing is to be told."""
        if settings["observability.exporter"] == "none" or settings["observability.level"] == "off":
            return None
        from torvyn.observe.otlp import OtlpExporter

        return cls(
            OtlpExporter(settings["observability.endpoint"]),
            sample_rate=settings["observability.sample_rate"],
            latency_promote_s=settings["observability.latency_promote"],
        )

    def ended(
        self,
        trace: Trace,
        answer: Answer,
        *,
        flow: str,
        more: Mapping[str, Any],
        failure: TorvynError | None = None,
        message: str = "",
    ) -> None:
        """An answer is over. `more` are attributes besides; empty ones are left out."""
        figures = answer.timing
        has_waited = figures.get("queue_s", figures["duration_s"]) >= self._promote_s
        if not (trace.is_sampled or failure is not None or has_waited):
            return
        operation = operation_of(answer)
        attributes = {
            "gen_ai.operation.name": operation,
            "gen_ai.request.model": flow,
            **_asked(answer),
            **otel(figures),
            **{name: value for name, value in more.items() if value},
        }
        end_ns = time.time_ns()
        start_ns = end_ns - int(figures["duration_s"] * 1e9)
        error = None if failure is None else failure.code
        span = Span(trace, f"{operation} {flow}", start_ns, end_ns, attributes, error, message)
        self.exporter.put(span)

    def close(self) -> None:
        self.exporter.close()


def operation_of(answer: Answer) -> str:
    """What OpenTelemetry calls it."""
    return "chat" if answer.request.prompt is None else "text_completion"


def _asked(answer: Answer) -> dict[str, Any]:
    request = answer.request
    given = {name: getattr(request, name) for name in _ASKED}
    said = {f"gen_ai.request.{name}": held for name, held in given.items() if held is not None}
    return said | ({"gen_ai.request.choice.count": request.n} if request.n > 1 else {})
