"""Sends spans to an OTLP collector, as JSON over HTTP, from a separate thread.

`put` never blocks. Spans wait in a bounded queue until the collector accepts them, oldest first;
spans that do not fit are dropped and counted. Nothing is written to disk.
"""

from __future__ import annotations

import http.client
import json
import logging
import threading
from collections import deque
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, Final
from urllib.parse import urlsplit

from torvyn.errors import UsageError
from torvyn.observe.spans import Span

logger = logging.getLogger("torvyn.observe")

PATH: Final = "/v1/traces"
_KIND_SERVER: Final = 2
_STATUS_ERROR: Final = 2
_RETRYABLE: Final = (408, 429, 502, 503, 504)
_RESPONSE_LIMIT_BYTES: Final = 64 * 1024
_LONGEST_PAUSE_S: Final = 30.0


class OtlpExporter:
    """Starts its thread at once; `close` sends the rest, within its time limit."""

    def __init__(
        self,
        endpoint: str,
        *,
        service: str = "torvyn",
        capacity: int = 2048,
        batch: int = 256,
        every_s: float = 1.0,
        timeout_s: float = 5.0,
        close_s: float = 2.0,
    ) -> None:
        """`endpoint` is the collector's address, such as `http://127.0.0.1:4318`. The queue holds
        up to `capacity` spans; they are sent every `every_s`, or as soon as a batch is full."""
        self._connect, self._path = _target(endpoint, timeout_s)
        self._service = service
        self._capacity, self._batch = capacity, batch
        self._every_s, self._close_s = every_s, close_s
        self._queue: deque[Span] = deque()
        self._changed = threading.Condition()
        self._is_closing = False
        self._has_warned = False
        self._connection: http.client.HTTPConnection | None = None
        self.sent = self.dropped = 0
        self._thread = threading.Thread(target=self._run, name="torvyn-otlp", daemon=True)
        self._thread.start()

    @property
    def queue_length(self) -> int:
        return len(self._queue)

    def put(self, span: Span) -> None:
        with self._changed:
            if self._is_closing or len(self._queue) >= self._capacity:
                self.dropped += 1
                return
            self._queue.append(span)
            # Only once per batch: waking the thread for every span would slow the caller.
            if len(self._queue) == self._batch:
                self._changed.notify()

    def close(self) -> None:
        """Drops and counts the spans that cannot be sent within the time limit."""
        with self._changed:
            self._is_closing = True
            self._changed.notify()
        self._thread.join(self._close_s)
        with self._changed:
            self.dropped += len(self._queue)
            self._queue.clear()
        if self.dropped:
            logger.warning("%d trace spans were dropped", self.dropped)

    # On the exporter's thread

    def _run(self) -> None:
        failures = 0
        while not self._is_closing:
            self._wait(failures)
            failures = 0 if self._send_queue() else failures + 1
        self._send_queue()

    def _wait(self, failures: int) -> None:
        def is_due() -> bool:
            # After a failure, a full batch does not shorten the pause.
            is_full = len(self._queue) >= self._batch
            return self._is_closing or (is_full and not failures)

        with self._changed:
            self._changed.wait_for(is_due, min(self._every_s * 2**failures, _LONGEST_PAUSE_S))

    def _send_queue(self) -> bool:
        """Sends batch after batch; False if the collector is unavailable."""
        while batch := self._next():
            status = self._post(batch)
            if status is None or status in _RETRYABLE:
                self._warn(status)
                return False
            is_accepted = 200 <= status < 300
            with self._changed:
                count = min(len(batch), len(self._queue))
                for _ in range(count):
                    self._queue.popleft()
                self.sent += count if is_accepted else 0
                self.dropped += 0 if is_accepted else count
            if is_accepted:
                self._has_warned = False
            else:
                self._warn(status)
        return True

    def _next(self) -> list[Span]:
        with self._changed:
            return list(islice(self._queue, self._batch))

    def _post(self, batch: Iterable[Span]) -> int | None:
        """The response's status; None if there was no response."""
        body = encode(batch, self._service)
        try:
            connection = self._connection or self._connect()
            self._connection = connection
            connection.request("POST", self._path, body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            response.read(_RESPONSE_LIMIT_BYTES)
        except (OSError, ValueError, http.client.HTTPException):
            self._disconnect()
            return None
        if response.will_close or not response.isclosed():
            self._disconnect()
        return response.status

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def _warn(self, status: int | None) -> None:
        """Warns once, until the collector accepts spans again."""
        if not self._has_warned:
            self._has_warned = True
            problem = "cannot be reached" if status is None else f"answered with status {status}"
            logger.warning("the trace collector %s", problem)


def encode(spans: Iterable[Span], service: str) -> bytes:
    """OTLP's ExportTraceServiceRequest as JSON."""
    # One span at a time: encoding a large text in one call would block other threads.
    encoded = ",".join(json.dumps(_span(span)) for span in spans)
    resource = json.dumps({"attributes": _attributes({"service.name": service})})
    scope = f'{{"scope":{{"name":"torvyn"}},"spans":[{encoded}]}}'
    return f'{{"resourceSpans":[{{"resource":{resource},"scopeSpans":[{scope}]}}]}}'.encode()


def _span(span: Span) -> dict[str, Any]:
    error = {} if span.error is None else {"error.type": span.error}
    record: dict[str, Any] = {
        "traceId": span.trace.trace_id,
        "spanId": span.trace.span_id,
        "name": span.name,
        "kind": _KIND_SERVER,
        "startTimeUnixNano": str(span.start_ns),
        "endTimeUnixNano": str(span.end_ns),
        "attributes": _attributes({**span.attributes, **error}),
    }
    if span.trace.parent_id:
        record["parentSpanId"] = span.trace.parent_id
    if span.error is not None:
        record["status"] = {"code": _STATUS_ERROR, "message": span.message}
    return record


def _attributes(attributes: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"key": name, "value": _value(value)} for name, value in attributes.items()]


def _value(value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, (list, tuple)):
        return {"arrayValue": {"values": [_value(item) for item in value]}}
    return {"stringValue": str(value)}


def _target(endpoint: str, timeout_s: float) -> tuple[Any, str]:
    parts = urlsplit(endpoint)
    try:
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if parts.scheme not in ("http", "https") or not host or parts.query or "@" in parts.netloc:
        raise UsageError(
            "observe.bad-endpoint",
            f"the collector's address is not a plain http or https URL: {endpoint!r}",
            hint="for example http://127.0.0.1:4318",
        )
    path = parts.path.rstrip("/")
    path = path if path.endswith(PATH) else path + PATH
    secure = parts.scheme == "https"
    kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
    return (lambda: kind(host, port, timeout=timeout_s)), path
