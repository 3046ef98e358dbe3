"""The metrics of a server: requests, answers, tokens and durations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from torvyn._observe.metrics import Metric
from torvyn.protocol.frames import Usage
from torvyn.transport.call import Call
from torvyn.transport.telemetry.histogram import Histogram, render_labels
from torvyn.transport.telemetry.pool_metrics import prometheus

_FIRST_S: Final = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_TOKEN_S: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
_WHOLE_S: Final = (0.01, 0.05, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
_TOKENS: Final = (1, 4, 16, 64, 256, 1024, 4096, 16384, 65536)

HISTOGRAMS: Final[dict[str, tuple[str, tuple[float, ...], str]]] = {
    "gen_ai_server_time_to_first_token_seconds": (
        "ttft_s",
        _FIRST_S,
        "Time from the request to the first text.",
    ),
    "gen_ai_server_time_per_output_token_seconds": (
        "time_per_output_token_s",
        _TOKEN_S,
        "Mean time per token, from the first text to the end.",
    ),
    "gen_ai_server_request_duration_seconds": (
        "duration_s",
        _WHOLE_S,
        "Time from the request to the end of the answer.",
    ),
    "torvyn_inter_token_seconds": (
        "inter_token_s",
        _TOKEN_S,
        "Mean time between two delivered tokens of an answer.",
    ),
    "torvyn_queue_seconds": (
        "queue_s",
        _FIRST_S,
        "Time until the engine starts to work on the request.",
    ),
    "torvyn_output_tokens": ("completion_tokens", _TOKENS, "Tokens per answer."),
}
"""Name -> the figure of an answer, its bucket bounds, its help text. The `gen_ai_` names are
OpenTelemetry's."""

SERVER_METRICS: Final = {
    "torvyn_waiting": "Requests that wait for admission.",
    "torvyn_refused_total": "Requests that were rejected because the server is busy.",
    "torvyn_sessions": "Sessions that are kept.",
    "torvyn_resumes_total": "Sessions that clients have resumed.",
    "torvyn_connections": "Open connections.",
    "torvyn_connections_with_key": "Open connections that have sent a valid key.",
    "torvyn_connections_evicted_total": "Idle connections that were closed to make room.",
    "torvyn_connections_refused_total": "Connections that were closed because there was no room.",
    "torvyn_spans_total": "Spans that the collector accepted.",
    "torvyn_spans_dropped_total": "Spans that the collector did not accept in time.",
}


class FlowMetrics:
    """The counters of one flow."""

    def __init__(self) -> None:
        self.answers: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self.prompt_tokens = self.completion_tokens = 0
        self.streams = 0
        self.histograms = {name: Histogram(bounds) for name, (_, bounds, _) in HISTOGRAMS.items()}

    def ended(self, call: Call, usage: Usage, timing: Mapping[str, float]) -> None:
        for reason in call.answer.finish_reasons:
            self.answers[call.finish(0, reason, None).reason] += 1
        if call.failure is not None:
            self.errors[call.failure.code] += 1
        self.prompt_tokens += usage.prompt_tokens
        self.completion_tokens += usage.completion_tokens
        for name, (figure, _, _) in HISTOGRAMS.items():
            if (value := timing.get(figure)) is not None:
                self.histograms[name].add(value)

    def to_dict(self) -> dict[str, Any]:
        return {
            "streams": self.streams,
            "choices": dict(self.answers),
            "errors": dict(self.errors),
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
        }


class Metrics:
    def __init__(self, flows: Mapping[str, Any], labels: Mapping[str, str] | None = None) -> None:
        """`labels` are those of every metric for Prometheus."""
        self._labels = dict(labels or {})
        self.requests: Counter[tuple[str, str, int]] = Counter()
        self.flows = {name: FlowMetrics() for name in flows}

    def prometheus(self, server_metrics: Mapping[str, int], others: Iterable[Metric] = ()) -> str:
        """`server_metrics` has the values of `SERVER_METRICS`; `others` follow."""
        lines = [*self._lines(server_metrics), *prometheus(others, self._labels)]
        return "\n".join(lines) + "\n"

    def _lines(self, server_metrics: Mapping[str, int]) -> Iterator[str]:
        yield from _head(
            "torvyn_requests_total", "counter", "Requests by method, route and status."
        )
        for (method, route, status), count in sorted(self.requests.items()):
            labels = self._render({"method": method, "route": route, "status": str(status)})
            yield f"torvyn_requests_total{labels} {count}"
        yield from self._each("torvyn_streams", "gauge", "Running answers.", "streams")
        yield from self._counters("torvyn_choices_total", "Choices by finish reason.", "answers")
        yield from self._counters("torvyn_errors_total", "Failed answers by error code.", "errors")
        for name in ("prompt_tokens", "completion_tokens"):
            doc = f"{name.removesuffix('_tokens').capitalize()} tokens."
            yield from self._each(f"torvyn_{name}_total", "counter", doc, name)
        yield from self._histograms()
        for name, value in server_metrics.items():
            kind = "counter" if name.endswith("_total") else "gauge"
            yield from _head(name, kind, SERVER_METRICS[name])
            yield f"{name}{self._render({}) if self._labels else ''} {value}"

    def _render(self, labels: dict[str, str]) -> str:
        return render_labels({**labels, **self._labels})

    def _each(self, name: str, kind: str, doc: str, attribute: str) -> Iterator[str]:
        yield from _head(name, kind, doc)
        for flow, metrics in self.flows.items():
            yield f"{name}{self._render({'flow': flow})} {getattr(metrics, attribute)}"

    def _counters(self, name: str, doc: str, attribute: str) -> Iterator[str]:
        label = "finish" if attribute == "answers" else "code"
        yield from _head(name, "counter", doc)
        for flow, metrics in self.flows.items():
            for value, count in sorted(getattr(metrics, attribute).items()):
                yield f"{name}{self._render({'flow': flow, label: value})} {count}"

    def _histograms(self) -> Iterator[str]:
        for name, (_, _, doc) in HISTOGRAMS.items():
            yield from _head(name, "histogram", doc)
            label = "gen_ai_request_model" if name.startswith("gen_ai_") else "flow"
            for flow, metrics in self.flows.items():
                yield from metrics.histograms[name].lines(name, {label: flow, **self._labels})


def _head(name: str, kind: str, doc: str) -> Iterator[str]:
    yield f"# HELP {name} {doc}"
    yield f"# TYPE {name} {kind}"
