"""What is counted of a server: requests, answers, tokens, times; for people and for Prometheus."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

from torvyn.transport.call import Call

TTFT_BOUNDS_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

SINGLES: Final = {
    "torvyn_waiting": "Requests that wait for a place.",
    "torvyn_refused_total": "Requests that got no place.",
    "torvyn_sessions": "Stateful answers that are kept.",
    "torvyn_resumes_total": "Clients that came back to one.",
}


class FlowMeter:
    """The counters of one flow."""

    def __init__(self) -> None:
        self.answers: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self.prompt_tokens = self.completion_tokens = 0
        self.streams = 0
        self.ttft_counts = [0] * (len(TTFT_BOUNDS_S) + 1)
        self.ttft_sum_s = 0.0

    def ended(self, call: Call) -> None:
        usage, timing = call.generation.usage, call.generation.timing
        for reason in call.generation.finish_reasons:
            self.answers[call.finish(0, reason, None).reason] += 1
        if call.failure is not None:
            self.errors[call.failure.code] += 1
        self.prompt_tokens += usage.prompt_tokens
        self.completion_tokens += usage.completion_tokens
        if (ttft_s := timing.get("ttft_s")) is not None:
            self.ttft_counts[bisect_left(TTFT_BOUNDS_S, ttft_s)] += 1
            self.ttft_sum_s += ttft_s

    def to_dict(self) -> dict[str, Any]:
        return {
            "streams": self.streams,
            "choices": dict(self.answers),
            "errors": dict(self.errors),
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
        }


class Meter:
    def __init__(self, flows: Mapping[str, Any]) -> None:
        self.requests: Counter[tuple[str, str, int]] = Counter()
        self.flows = {name: FlowMeter() for name in flows}

    def prometheus(self, singles: Mapping[str, int]) -> str:
        """`singles` are the values of `SINGLES`."""
        return "\n".join(self._lines(singles)) + "\n"

    def _lines(self, singles: Mapping[str, int]) -> Iterator[str]:
        yield from _head("torvyn_requests_total", "counter", "Requests, by route and status.")
        for (method, route, status), count in sorted(self.requests.items()):
            labels = _labels(method=method, route=route, status=str(status))
            yield f"torvyn_requests_total{labels} {count}"
        yield from self._each("torvyn_streams", "gauge", "Answers being made.", "streams")
        yield from self._counters("torvyn_choices_total", "Choices, by their end.", "answers")
        yield from self._counters("torvyn_errors_total", "Answers that failed.", "errors")
        for name in ("prompt_tokens", "completion_tokens"):
            yield from self._each(f"torvyn_{name}_total", "counter", "Tokens.", name)
        yield from self._ttft()
        for name, value in singles.items():
            kind = "counter" if name.endswith("_total") else "gauge"
            yield from _head(name, kind, SINGLES[name])
            yield f"{name} {value}"

    def _each(self, name: str, kind: str, doc: str, attribute: str) -> Iterator[str]:
        yield from _head(name, kind, doc)
        for flow, meter in self.flows.items():
            yield f"{name}{_labels(flow=flow)} {getattr(meter, attribute)}"

    def _counters(self, name: str, doc: str, attribute: str) -> Iterator[str]:
        label = "finish" if attribute == "answers" else "code"
        yield from _head(name, "counter", doc)
        for flow, meter in self.flows.items():
            for value, count in sorted(getattr(meter, attribute).items()):
                yield f"{name}{_labels(flow=flow, **{label: value})} {count}"

    def _ttft(self) -> Iterator[str]:
        name = "torvyn_time_to_first_token_seconds"
        yield from _head(name, "histogram", "From the request to its first text.")
        for flow, meter in self.flows.items():
            total = 0
            for bound, count in zip((*TTFT_BOUNDS_S, None), meter.ttft_counts, strict=True):
                total += count
                edge = "+Inf" if bound is None else f"{bound:g}"
                yield f"{name}_bucket{_labels(flow=flow, le=edge)} {total}"
            yield f"{name}_sum{_labels(flow=flow)} {meter.ttft_sum_s:.6f}"
            yield f"{name}_count{_labels(flow=flow)} {total}"


def _head(name: str, kind: str, doc: str) -> Iterator[str]:
    yield f"# HELP {name} {doc}"
    yield f"# TYPE {name} {kind}"


def _labels(**labels: str) -> str:
    pairs = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())
    return f"{{{pairs}}}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
