"""A collector for tests: a real server on loopback that stores or rejects spans and metrics.

It speaks HTTP, or gRPC. It decodes protobuf by itself, so that it does not share the exporter's
mistakes; `tests/observe/test_otlp_messages.py` compares with OpenTelemetry's own messages.
"""

from __future__ import annotations

import gzip
import struct
import threading
import time
from collections.abc import Iterator
from concurrent import futures
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TIMEOUT_S = 10.0
SPAN, METRIC = 2, 2
"""The numbers of both fields in their scope."""


class Collector:
    """The spans and metrics that it has received, with their attributes as a dict."""

    def __init__(self) -> None:
        self.spans: list[dict[str, Any]] = []
        self.metrics: list[dict[str, Any]] = []
        """One per data point: name, attributes, value."""
        self.bodies: list[bytes] = []
        self.paths: list[str] = []
        self.headers: dict[str, str] = {}
        """Of the last request."""
        self.statuses: list[int] = []
        """The statuses of the next responses; 200 when the list is empty."""
        self._changed = threading.Condition()
        self.url = ""

    def take(self, path: str, body: bytes) -> int:
        with self._changed:
            status = self.statuses.pop(0) if self.statuses else 200
            self.paths.append(path)
            self.bodies.append(body)
            if status == 200 and "trace" in path:
                self.spans += [read_span(span) for span in in_scope(body)]
            elif status == 200:
                self.metrics += [p for metric in in_scope(body) for p in read_metric(metric)]
            self._changed.notify_all()
        return status

    def until(self, count: int) -> list[dict[str, Any]]:
        """Waits for that many spans."""
        with self._changed:
            is_complete = self._changed.wait_for(lambda: len(self.spans) >= count, TIMEOUT_S)
            assert is_complete, f"{len(self.spans)} spans arrived"
            return list(self.spans)

    def until_metric(self, name: str) -> list[dict[str, Any]]:
        """Waits for a metric; returns all points of that name."""

        def found() -> list[dict[str, Any]]:
            return [point for point in self.metrics if point["name"] == name]

        with self._changed:
            assert self._changed.wait_for(found, TIMEOUT_S), f"no metric {name}"
            return found()

    def until_requests(self, count: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.bodies) >= count, TIMEOUT_S)


@contextmanager
def running_collector(port: int = 0) -> Iterator[Collector]:
    """Over HTTP."""
    collector = Collector()
    server = ThreadingHTTPServer(("127.0.0.1", port), _handler(collector))
    server.daemon_threads = True
    collector.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield collector
    finally:
        server.shutdown()
        server.server_close()
        thread.join(TIMEOUT_S)


@contextmanager
def running_grpc_collector(port: int = 0) -> Iterator[Collector]:
    """A status of 200 is OK; others are gRPC's numbers."""
    import grpc

    collector = Collector()
    codes = {code.value[0]: code for code in grpc.StatusCode}

    def export(path: str) -> Any:
        def call(body: bytes, context: Any) -> bytes:
            collector.headers = dict(context.invocation_metadata())
            status = collector.take(path, body)
            if status != 200:
                context.abort(codes[status], "as the test asks")
            return b""

        return grpc.unary_unary_rpc_method_handler(call)

    server = grpc.server(futures.ThreadPoolExecutor(2), options=[("grpc.so_reuseport", 0)])
    for signal in ("trace", "metrics"):
        service = f"opentelemetry.proto.collector.{signal}.v1.{signal.capitalize()}Service"
        handlers = {"Export": export(signal)}
        server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(service, handlers)])
    bound = server.add_insecure_port(f"127.0.0.1:{port}")
    collector.url = f"http://127.0.0.1:{bound}"
    server.start()
    try:
        yield collector
    finally:
        server.stop(None).wait(TIMEOUT_S)


def wait_until(condition: Any) -> None:
    end_s = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < end_s, "the condition did not become true"
        time.sleep(0.002)


def _handler(collector: Collector) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            assert self.headers["Content-Type"] == "application/x-protobuf"
            assert self.headers["Content-Encoding"] == "gzip"
            body = gzip.decompress(self.rfile.read(int(self.headers["Content-Length"])))
            collector.headers = {name.lower(): value for name, value in self.headers.items()}
            self.send_response(collector.take(self.path, body))
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *words: Any) -> None:
            """Nothing."""

    return Handler


# Protobuf


def parse(message: bytes) -> dict[int, list[Any]]:
    """The fields by number: ints for varints, bytes for the rest."""
    found: dict[int, list[Any]] = {}
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at, value, shift = at + 1, value | (byte & 127) << shift, shift + 7
            if byte < 128:
                return value

    while at < len(message):
        number, kind = divmod(varint(), 8)
        if kind == 0:
            value: Any = varint()
        else:
            size = {1: 8, 5: 4}.get(kind) or varint()
            value, at = message[at : at + size], at + size
        found.setdefault(number, []).append(value)
    return found


def in_scope(body: bytes) -> list[bytes]:
    """The spans or metrics of an export request."""
    (resource,) = parse(body)[1]
    (scope,) = parse(resource)[2]
    found: list[bytes] = parse(scope).get(SPAN, [])
    return found


def resource_attributes(body: bytes) -> dict[str, Any]:
    (record,) = parse(body)[1]
    (resource,) = parse(record)[1]
    return _attributes(parse(resource).get(1, []))


def read_span(span: bytes) -> dict[str, Any]:
    """With the names of OTLP's JSON."""
    fields = parse(span)
    optional: dict[str, Any] = {}
    if 4 in fields:
        optional["parentSpanId"] = fields[4][0].hex()
    if 15 in fields:
        status = parse(fields[15][0])
        optional["status"] = {"code": status[3][0], "message": status[2][0].decode()}
    return optional | {
        "traceId": fields[1][0].hex(),
        "spanId": fields[2][0].hex(),
        "name": fields[5][0].decode(),
        "kind": fields[6][0],
        "startTimeUnixNano": _fixed(fields[7][0]),
        "endTimeUnixNano": _fixed(fields[8][0]),
        "attributes": _attributes(fields.get(9, [])),
    }


def read_metric(metric: bytes) -> Iterator[dict[str, Any]]:
    fields = parse(metric)
    kind = {5: "gauge", 7: "sum", 9: "histogram"}[next(n for n in (5, 7, 9) if n in fields)]
    data = parse(fields[{"gauge": 5, "sum": 7, "histogram": 9}[kind]][0])
    for point in data[1]:
        values = parse(point)
        labels = values.get(9 if kind == "histogram" else 7, [])
        yield {
            "name": fields[1][0].decode(),
            "kind": kind,
            "unit": fields[3][0].decode(),
            "attributes": _attributes(labels),
            "value": _number(values, kind),
        }


def _number(values: dict[int, list[Any]], kind: str) -> Any:
    if kind == "histogram":
        counts = values[6][0]
        return [_fixed(counts[at : at + 8]) for at in range(0, len(counts), 8)]
    return _fixed(values[6][0]) if 6 in values else struct.unpack("<d", values[4][0])[0]


def _fixed(data: bytes) -> int:
    number: int = struct.unpack("<q", data)[0]
    return number


def _attributes(pairs: list[bytes]) -> dict[str, Any]:
    found = [parse(pair) for pair in pairs]
    return {pair[1][0].decode(): _value(pair[2][0]) for pair in found}


def _value(data: bytes) -> Any:
    ((number, (value,)),) = parse(data).items()
    if number == 1:
        return value.decode()
    if number == 2:
        return bool(value)
    if number == 4:
        return struct.unpack("<d", value)[0]
    if number == 5:
        return [_value(item) for item in parse(value).get(1, [])]
    return value - (1 << 64) if value >> 63 else value
