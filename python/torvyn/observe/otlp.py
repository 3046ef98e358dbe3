"""OTLP: spans to a collector, as JSON over HTTP, from a thread of its own.

Whoever hands a span over never waits. What the collector has not taken stays in a bounded queue
and is sent again, oldest first; what does not fit is dropped and counted. Nothing goes to disk.
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
_SERVER: Final = 2
_FAILED: Final = 2
_LATER: Final = (408, 429, 502, 503, 504)
"""Answers after which the same may be sent again."""
_MOST_ANSWER: Final = 64 * 1024
_LONGEST_PAUSE_S: Final = 30.0


class OtlpExporter:
    """Begins at once; `close` sends what is left, within its time limit."""

    def __init__(
        self,
        endpoint: str,
        *,
        service: str = "torvyn",
        most: int = 2048,
        batch: int = 256,
        every_s: float = 1.0,
        timeout_s: float = 5.0,
        close_s: float = 2.0,
    ) -> None:
        """`endpoint` is the collector's address, such as `http://127.0.0.1:4318`. At most `most`
        spans wait; every `every_s` a batch is sent, or as soon as there is one."""
        self._connect, self._path = _target(endpoint, timeout_s)
        self._service = service
        self._most, self._batch, self._every_s, self._close_s = most, batch, every_s, close_s
        self._waiting: deque[Span] = deque()
        self._changed = threading.Condition()
        self._is_closing = False
        self._has_complained = False
        self._connection: http.client.HTTPConnection | None = None
        self.sent = self.dropped = 0
        self._thread = threading.Thread(target=self._run, name="torvyn-otlp", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def put(self, span: Span) -> None:
        with self._changed:
            if self._is_closing or len(self._waiting) >= self._most:
                self.dropped += 1
                return
            self._waiting.append(span)
            # Once: a thread that is woken for every span costs those who hand them over.
            if len(self._waiting) == self._batch:
                self._changed.notify()

    def close(self) -> None:
        """What could not be sent by then is dropped, and counted."""
        with self._changed:
            self._is_closing = True
            self._changed.notify()
        self._thread.join(self._close_s)
        with self._changed:
            self.dropped += len(self._waiting)
            self._waiting.clear()
        if self.dropped:
            logger.warning("%d spans were not taken by the collector", self.dropped)

    # On its thread

    def _run(self) -> None:
        failures = 0
        while not self._is_closing:
            self._rest(failures)
            failures = 0 if self._send_waiting() else failures + 1
        self._send_waiting()

    def _rest(self, failures: int) -> None:
        def is_due() -> bool:
            # A collector that failed is left alone, however much waits for it.
            is_much = len(self._waiting) >= self._batch
            return self._is_closing or (is_much and not failures)

        with self._changed:
            self._changed.wait_for(is_due, min(self._every_s * 2**failures, _LONGEST_PAUSE_S))

    def _send_waiting(self) -> bool:
        """Batch after batch; False: the collector is not there for one."""
        while batch := self._next():
            status = self._post(batch)
            if status is None or status in _LATER:
                self._complain(status)
                return False
            is_taken = 200 <= status < 300
            with self._changed:
                settled = min(len(batch), len(self._waiting))
                for _ in range(settled):
                    self._waiting.popleft()
                self.sent += settled if is_taken else 0
                self.dropped += 0 if is_taken else settled
            if is_taken:
                self._has_complained = False
            else:
                self._complain(status)
        return True

    def _next(self) -> list[Span]:
        with self._changed:
            return list(islice(self._waiting, self._batch))

    def _post(self, batch: Iterable[Span]) -> int | None:
        """The status; None when the collector could not be asked."""
        body = encode(batch, self._service)
        try:
            connection = self._connection or self._connect()
            self._connection = connection
            connection.request("POST", self._path, body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            answer.read(_MOST_ANSWER)
        except (OSError, ValueError, http.client.HTTPException):
            self._hang_up()
            return None
        if answer.will_close or not answer.isclosed():
            self._hang_up()
        return answer.status

    def _hang_up(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def _complain(self, status: int | None) -> None:
        """Once, until it works again."""
        if not self._has_complained:
            self._has_complained = True
            words = "cannot be reached" if status is None else f"answered with status {status}"
            logger.warning("the collector of traces %s", words)


def encode(spans: Iterable[Span], service: str) -> bytes:
    """The request that OTLP calls ExportTraceServiceRequest, in its JSON form."""
    # One by one: a large text in one go would keep the interpreter from everybody else.
    made = ",".join(json.dumps(_span(span)) for span in spans)
    resource = json.dumps({"attributes": _attributes({"service.name": service})})
    scope = f'{{"scope":{{"name":"torvyn"}},"spans":[{made}]}}'
    return f'{{"resourceSpans":[{{"resource":{resource},"scopeSpans":[{scope}]}}]}}'.encode()


def _span(span: Span) -> dict[str, Any]:
    more = {} if span.error is None else {"error.type": span.error}
    made: dict[str, Any] = {
        "traceId": span.trace.trace_id,
        "spanId": span.trace.span_id,
        "name": span.name,
        "kind": _SERVER,
        "startTimeUnixNano": str(span.start_ns),
        "endTimeUnixNano": str(span.end_ns),
        "attributes": _attributes({**span.attributes, **more}),
    }
    if span.trace.parent_id:
        made["parentSpanId"] = span.trace.parent_id
    if span.error is not None:
        made["status"] = {"code": _FAILED, "message": span.message}
    return made


def _attributes(given: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"key": name, "value": _value(held)} for name, held in given.items()]


def _value(held: Any) -> dict[str, Any]:
    if isinstance(held, bool):
        return {"boolValue": held}
    if isinstance(held, int):
        return {"intValue": str(held)}
    if isinstance(held, float):
        return {"doubleValue": held}
    if isinstance(held, (list, tuple)):
        return {"arrayValue": {"values": [_value(one) for one in held]}}
    return {"stringValue": str(held)}


def _target(endpoint: str, timeout_s: float) -> tuple[Any, str]:
    parts = urlsplit(endpoint)
    try:
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if parts.scheme not in ("http", "https") or not host or parts.query or "@" in parts.netloc:
        raise UsageError(
            "observe.bad-endpoint",
            f"the collector's address is no plain http or https address: {endpoint!r}",
            hint="such as http://127.0.0.1:4318",
        )
    path = parts.path.rstrip("/")
    path = path if path.endswith(PATH) else path + PATH
    secure = parts.scheme == "https"
    kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
    return (lambda: kind(host, port, timeout=timeout_s)), path
