"""OTLP requests over gRPC. The messages are bytes already, so only grpcio is needed."""

from __future__ import annotations

from typing import Any, Final

from torvyn._io.packages import import_package
from torvyn.observe.otlp.messages import rejected_count
from torvyn.observe.otlp.sender import SIGNALS, Endpoint, Request, Result

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
