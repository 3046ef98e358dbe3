"""Sends OTLP requests to a collector, over HTTP on one connection that is kept open, or over gRPC.

The messages are bytes already, so gRPC needs grpcio only.
"""

from __future__ import annotations

import contextlib
import gzip
import http.client
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol
from urllib.parse import unquote, urlsplit

from torvyn._io.backoff import retry_after_s
from torvyn._io.packages import import_package
from torvyn._observe.otlp_messages import rejected_count
from torvyn.errors import UsageError

Signal = Literal["traces", "metrics"]

SIGNALS: Final[tuple[Signal, ...]] = ("traces", "metrics")

_HEADER_NAME: Final = re.compile(r"[a-z0-9!#$%&'*+.^_`|~-]+")

_PATHS: Final = tuple(f"/v1/{signal}" for signal in SIGNALS)


@dataclass(frozen=True, slots=True)
class Request:
    """An encoded export request with so many spans or data points."""

    signal: Signal
    body: bytes
    count: int


@dataclass(frozen=True, slots=True)
class Result:
    """`rejected` items were not accepted and never will be. If `is_final` is not set, the request
    is sent again, after `retry_after_s` at the earliest."""

    is_final: bool
    rejected: int = 0
    problem: str = ""
    retry_after_s: float = 0.0


class Sender(Protocol):
    """Sends one request at a time; never raises."""

    def send(self, request: Request) -> Result: ...

    def abort(self) -> None:
        """From another thread: ends a request that waits."""

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Endpoint:
    host: str
    port: int | None
    path: str
    """Without the part that names the signal."""
    is_secure: bool
    headers: Mapping[str, str]

    @classmethod
    def parse(cls, text: str, headers: str = "") -> Endpoint:
        """`headers` is a list of `name=value`, as in OTEL_EXPORTER_OTLP_HEADERS."""
        parts = urlsplit(text)
        try:
            host, port = parts.hostname, parts.port
        except ValueError:
            host, port = None, None
        if parts.scheme not in ("http", "https") or not host or parts.query or "@" in parts.netloc:
            raise UsageError(
                "observe.bad-endpoint",
                f"the collector's address is not a plain http or https URL: {text!r}",
                hint="for example http://127.0.0.1:4318",
            )
        path = parts.path.rstrip("/")
        for ending in _PATHS:
            path = path.removesuffix(ending)
        return cls(host, port, path, parts.scheme == "https", _parse_headers(headers))


def _parse_headers(text: str) -> dict[str, str]:
    headers = {}
    for pair in filter(None, map(str.strip, text.split(","))):
        name, equals, value = pair.partition("=")
        name, value = name.strip().lower(), unquote(value.strip())
        # The value may be a secret, so it is not quoted.
        if not equals or not _HEADER_NAME.fullmatch(name) or not value.isprintable():
            raise UsageError(
                "observe.bad-headers",
                "the headers for the collector are not a list of `name=value`",
                hint="for example api-key=${API_KEY},x-tenant=plant-7",
            )
        headers[name] = value
    return headers


_DEFAULT_PORT: Final = 4317

_METHODS: Final = {
    "traces": "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
    "metrics": "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
}

_RETRYABLE: Final = (
    "CANCELLED",
    "DEADLINE_EXCEEDED",
    "RESOURCE_EXHAUSTED",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNAVAILABLE",
    "DATA_LOSS",
)

_OPTIONS: Final = (
    # The exporter itself decides when to try again.
    ("grpc.enable_retries", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
)


class GrpcSender:
    def __init__(self, endpoint: Endpoint, timeout_s: float) -> None:
        grpc = import_package("grpc", "the exporter `otlp-grpc`", "otlp", "observe.package-missing")
        self._grpc, self._timeout_s = grpc, timeout_s
        host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
        target = f"{host}:{endpoint.port or _DEFAULT_PORT}"
        if endpoint.is_secure:
            credentials = grpc.ssl_channel_credentials()
            self._channel = grpc.secure_channel(target, credentials, options=_OPTIONS)
        else:
            self._channel = grpc.insecure_channel(target, options=_OPTIONS)
        self._methods = {signal: self._channel.unary_unary(_METHODS[signal]) for signal in SIGNALS}
        self._metadata = tuple(endpoint.headers.items())
        self._call: Any = None

    def send(self, request: Request) -> Result:
        method = self._methods[request.signal]
        try:
            self._call = method.future(
                request.body,
                timeout=self._timeout_s,
                metadata=self._metadata,
                compression=self._grpc.Compression.Gzip,
            )
            rejected = min(rejected_count(self._call.result()), request.count)
        except self._grpc.RpcError as error:
            return _failure(error, request.count)
        except (self._grpc.FutureCancelledError, ValueError):  # aborted, or closed
            return Result(False, problem="cannot be reached")
        return Result(True, rejected, f"rejected {rejected} items" if rejected else "")

    def abort(self) -> None:
        if self._call is not None:
            self._call.cancel()

    def close(self) -> None:
        self._channel.close()


def _failure(error: Any, count: int) -> Result:
    name = error.code().name
    if name == "UNAVAILABLE":
        return Result(False, problem="cannot be reached")
    problem = f"answered with {name}"
    return Result(False, problem=problem) if name in _RETRYABLE else Result(True, count, problem)


_RETRYABLE_STATUSES: Final = (408, 429, 502, 503, 504)

_RESPONSE_LIMIT_BYTES: Final = 64 * 1024

_HEADERS: Final = {"Content-Type": "application/x-protobuf", "Content-Encoding": "gzip"}


class HttpSender:
    def __init__(self, endpoint: Endpoint, timeout_s: float) -> None:
        self._endpoint, self._timeout_s = endpoint, timeout_s
        self._headers = {**endpoint.headers, **_HEADERS}
        self._connection: http.client.HTTPConnection | None = None

    def send(self, request: Request) -> Result:
        path = f"{self._endpoint.path}/v1/{request.signal}"
        try:
            if self._connection is None:
                self._connection = self._connect()
            body = gzip.compress(request.body, 1)
            self._connection.request("POST", path, body, self._headers)
            response = self._connection.getresponse()
            answer = response.read(_RESPONSE_LIMIT_BYTES)
        except (OSError, ValueError, http.client.HTTPException):
            self.close()
            return Result(False, problem="cannot be reached")
        if response.will_close or not response.isclosed():
            self.close()
        return _result(response, answer, request.count)

    def _connect(self) -> http.client.HTTPConnection:
        target = self._endpoint
        kind = http.client.HTTPSConnection if target.is_secure else http.client.HTTPConnection
        return kind(target.host, target.port, timeout=self._timeout_s)

    def abort(self) -> None:
        connection = self._connection
        if connection is not None and connection.sock is not None:
            with contextlib.suppress(OSError, AttributeError):
                connection.sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _result(response: http.client.HTTPResponse, body: bytes, count: int) -> Result:
    status = response.status
    problem = f"answered with status {status}"
    if status in _RETRYABLE_STATUSES:
        after_s = retry_after_s(response.getheader("Retry-After"))
        return Result(False, problem=problem, retry_after_s=after_s or 0.0)
    if 200 <= status < 300:
        rejected = min(rejected_count(body), count)
        return Result(True, rejected, f"rejected {rejected} items" if rejected else "")
    return Result(True, count, problem)
