"""OTLP requests over HTTP, on one connection that is kept open."""

from __future__ import annotations

import contextlib
import gzip
import http.client
import socket
from typing import Final

from torvyn._io.backoff import retry_after_s
from torvyn.observe.otlp.messages import rejected_count
from torvyn.observe.otlp.sender import Endpoint, Request, Result

_RETRYABLE: Final = (408, 429, 502, 503, 504)
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
    if status in _RETRYABLE:
        after_s = retry_after_s(response.getheader("Retry-After"))
        return Result(False, problem=problem, retry_after_s=after_s or 0.0)
    if 200 <= status < 300:
        rejected = min(rejected_count(body), count)
        return Result(True, rejected, f"rejected {rejected} items" if rejected else "")
    return Result(True, count, problem)
