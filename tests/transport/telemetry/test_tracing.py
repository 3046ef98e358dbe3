"""Traces: continued from clients, passed to upstreams, exported to a collector."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from asgi_client import PROMPT_BODY, Client
from live_server import Served, served
from serve_process import MANIFEST, serving

from collector import Collector, running_collector
from torvyn._observe.otlp_exporter import OtlpExporter
from torvyn._observe.spans import Span, Tracer
from torvyn.engine import Request, Scripted, Service
from torvyn.engine import open as open_engine
from torvyn.engine.generation import Generation
from torvyn.protocol.traceparent import begin
from torvyn.serve import ServerSettings, app

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SAMPLED, UNSAMPLED = (f"00-{TRACE}-{PARENT}-{flags}" for flags in ("01", "00"))
LATE_S = 3600.0
CHAT = {"messages": [{"role": "user", "content": "a riddle"}], "model": "chat"}


@contextmanager
def tracing(**options: Any) -> Iterator[tuple[Collector, Tracer]]:
    """A tracer that tells of nothing by itself, unless the options say otherwise."""
    rates = {"sample_rate": 0.0, "latency_promote_s": LATE_S, **options}
    with running_collector() as collector:
        tracer = Tracer(OtlpExporter(collector.url, every_s=0.01, close_s=5.0), **rates)
        try:
            yield collector, tracer
        finally:
            tracer.close()


def application(engine: Any, tracer: Tracer | None, **settings: Any) -> Any:
    return app({"chat": Service("chat", engine)}, ServerSettings(**settings), tracer)


async def test_an_answer_is_a_span_below_the_clients_own() -> None:
    with tracing() as (collector, tracer):
        asked = {**CHAT, "max_tokens": 2, "temperature": 0.5, "stream": True}
        headers = {"traceparent": SAMPLED, "x-request-id": "mine"}
        served = application(Scripted("one two three"), tracer)
        client = await Client(served, "/v1/chat/completions", asked, headers=headers)
        (span,) = await asyncio.to_thread(collector.until, 1)

    assert client.headers["traceparent"] == f"00-{TRACE}-{span['spanId']}-01"
    assert (span["traceId"], span["parentSpanId"], span["name"]) == (TRACE, PARENT, "chat chat")
    held = span["attributes"]
    assert held["gen_ai.response.finish_reasons"] == ["length"]
    assert (held["gen_ai.usage.input_tokens"], held["gen_ai.usage.output_tokens"]) == (2, 2)
    assert held["gen_ai.server.time_to_first_token"] > 0
    assert (held["gen_ai.provider.name"], held["gen_ai.request.model"]) == ("scripted", "chat")
    assert (held["gen_ai.request.max_tokens"], held["torvyn.request_id"]) == (2, "mine")
    assert int(span["endTimeUnixNano"]) > int(span["startTimeUnixNano"])
    assert "status" not in span


async def test_a_span_has_no_prompt_and_no_answer() -> None:
    with tracing(sample_rate=1.0) as (collector, tracer):
        await Client(application(Scripted("the solution"), tracer), body={"prompt": "a riddle"})
        await asyncio.to_thread(collector.until, 1)

    told = b"".join(collector.bodies)
    for secret in ("riddle", "solution"):
        assert secret.encode() not in told


async def test_a_failed_answer_has_a_span_though_its_trace_is_not_sampled() -> None:
    with tracing() as (collector, tracer):
        good = application(Scripted("fine"), tracer)
        bad = application(Scripted("a b", fail_at=1), tracer, secrets=frozenset({"fails here"}))
        await Client(good, body=PROMPT_BODY, headers={"traceparent": UNSAMPLED})
        await Client(bad, body=PROMPT_BODY, headers={"traceparent": UNSAMPLED})
        (span,) = await asyncio.to_thread(collector.until, 1)

    assert span["attributes"]["error.type"] == "engine.scripted-failure"
    assert span["status"] == {"code": 2, "message": "the script [redacted]"}
    assert span["attributes"]["gen_ai.response.finish_reasons"] == ["error"]


@pytest.mark.parametrize(("waited_s", "told"), [(0.009, 0), (0.011, 1)])
async def test_an_answer_that_waited_has_a_queue_span(waited_s: float, told: int) -> None:
    kept, now_s = Kept(), [0.0]
    generation = Generation(Scripted("fine"), Request.make("Hi"), lambda: now_s[0])
    now_s[0] += waited_s  # for a place; then the engine begins, and takes its time
    async for _ in generation:
        now_s[0] += 5.0

    tracer = Tracer(kept, sample_rate=0.0, latency_promote_s=0.01)
    tracer.record_answer(begin(), generation, flow="chat", attributes={})

    assert len(kept.spans) == told


class Kept:
    """An exporter that keeps what it gets."""

    sent = dropped = 0

    def __init__(self) -> None:
        self.spans: list[Span] = []

    def put(self, span: Span) -> None:
        self.spans.append(span)

    def collect(self, collect: object) -> None:
        """Metrics are not kept."""

    def close(self) -> None:
        """There is nothing to send."""


@pytest.mark.parametrize("path", ["/v1/streams", "/healthz", "/nowhere"])
async def test_every_answer_names_its_span_and_a_wrong_header_begins_a_trace(path: str) -> None:
    served = application(Scripted("fine"), None)
    method = "POST" if path == "/v1/streams" else "GET"
    given = {"traceparent": "00-nonsense"}
    client = await Client(served, path, PROMPT_BODY, method, headers=given)

    version, trace_id, span_id, flags = client.headers["traceparent"].split("-")
    assert (version, len(trace_id), len(span_id), flags) == ("00", 32, 16, "00")


async def test_sent_and_dropped_spans_are_counted() -> None:
    with tracing(sample_rate=1.0) as (collector, tracer):
        served = application(Scripted("fine"), tracer)
        await Client(served, body=PROMPT_BODY)
        await asyncio.to_thread(collector.until, 1)
        await asyncio.to_thread(tracer.close)
        await Client(served, body=PROMPT_BODY)
        metrics = (await Client(served, "/metrics", method="GET")).body.decode()

    assert "\ntorvyn_spans_total 1\n" in metrics
    assert "\ntorvyn_spans_dropped_total 1\n" in metrics


async def test_answers_do_not_notice_that_the_collector_is_away() -> None:
    with running_collector() as collector:
        url = collector.url
    tracer = Tracer(OtlpExporter(url, every_s=0.01, close_s=0.1), sample_rate=1.0)
    served = application(Scripted("fine"), tracer)
    clients = [await Client(served, body=PROMPT_BODY) for _ in range(50)]
    tracer.close()

    assert {client.frames()[-1].finish[0].reason for client in clients} == {"stop"}
    assert (tracer.exporter.sent, tracer.exporter.dropped) == (0, 50)


@contextmanager
def gateway(tracer: Tracer) -> Iterator[Served]:
    with served(Scripted("a b c", delay=0.01), tracer=tracer) as upstream:
        engine = open_engine("openai", base_url=f"{upstream.url}/v1", model="chat")
        with served(engine, tracer=tracer) as front:
            yield front


def ask(url: str, traceparent: str) -> None:
    headers = {"traceparent": traceparent}
    body = json.dumps({**CHAT, "stream": True}).encode()
    request = urllib.request.Request(f"{url}/v1/chat/completions", body, headers)
    with urllib.request.urlopen(request, timeout=20) as answer:
        answer.read()


def test_upstreams_get_the_span_of_each_concurrent_request() -> None:
    count = 20
    traces = [f"{number:032x}" for number in range(1, count + 1)]
    with tracing() as (collector, tracer), gateway(tracer) as front:
        with ThreadPoolExecutor(count) as pool:
            list(pool.map(lambda one: ask(front.url, f"00-{one}-{PARENT}-01"), traces))
        spans = collector.until(2 * count)

    fronts = {span["spanId"]: span["traceId"] for span in spans if span["parentSpanId"] == PARENT}
    behind = {span["parentSpanId"]: span["traceId"] for span in spans} | {PARENT: ""}
    assert sorted(fronts.values()) == traces
    assert behind == {**fronts, PARENT: ""}


OBSERVED = """
[observability]
exporter = "otlp-http"
endpoint = "{url}"
sample_rate = 1.0
"""


def test_the_manifest_names_the_collector_and_shutdown_sends_the_last_spans(
    tmp_path: Path,
) -> None:
    with running_collector() as collector:
        (tmp_path / "Torvyn.toml").write_text(MANIFEST + OBSERVED.format(url=collector.url))
        with serving(tmp_path) as (process, url):
            request = urllib.request.Request(f"{url}/v1/streams", json.dumps(PROMPT_BODY).encode())
            urllib.request.urlopen(request, timeout=20).read()
            process.terminate()
            assert process.wait(20) == 143
        (span,) = collector.spans

    assert span["name"] == "text_completion org/model-1.5"
    (choices,) = [p for p in collector.metrics if p["name"] == "flow.choices"][-1:]
    assert (choices["value"], choices["attributes"]["flow"]) == (1, "org/model-1.5")
    durations = [p for p in collector.metrics if p["name"] == "gen_ai.server.request.duration"]
    assert sum(durations[-1]["value"]) == 1
