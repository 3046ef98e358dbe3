"""A trace collector for tests: a real server on loopback that stores or rejects spans."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TIMEOUT_S = 10.0


class Collector:
    """The spans that it has received, with their attributes as a dict."""

    def __init__(self, port: int = 0) -> None:
        self.spans: list[dict[str, Any]] = []
        self.bodies: list[bytes] = []
        self.paths: list[str] = []
        self.statuses: list[int] = []
        """The statuses of the next responses; 200 when the list is empty."""
        self._changed = threading.Condition()
        self._server = ThreadingHTTPServer(("127.0.0.1", port), _handler(self))
        self._server.daemon_threads = True
        self.port: int = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def take(self, path: str, body: bytes) -> int:
        with self._changed:
            status = self.statuses.pop(0) if self.statuses else 200
            self.paths.append(path)
            self.bodies.append(body)
            if status == 200:
                (resource,) = json.loads(body)["resourceSpans"]
                (scope,) = resource["scopeSpans"]
                self.spans += [_read(span) for span in scope["spans"]]
            self._changed.notify_all()
        return status

    def until(self, count: int) -> list[dict[str, Any]]:
        """Waits for that many spans."""
        with self._changed:
            is_complete = self._changed.wait_for(lambda: len(self.spans) >= count, TIMEOUT_S)
            assert is_complete, f"{len(self.spans)} spans arrived"
            return list(self.spans)

    def until_requests(self, count: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.bodies) >= count, TIMEOUT_S)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(TIMEOUT_S)


@contextmanager
def running_collector(port: int = 0) -> Iterator[Collector]:
    collector = Collector(port)
    try:
        yield collector
    finally:
        collector.close()


def wait_until(condition: Any) -> None:
    end_s = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < end_s, "the condition did not become true"
        time.sleep(0.002)


def _handler(collector: Collector) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(collector.take(self.path, body))
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *words: Any) -> None:
            """Nothing."""

    return Handler


def _read(span: dict[str, Any]) -> dict[str, Any]:
    attributes = {one["key"]: _value(one["value"]) for one in span["attributes"]}
    return {**span, "attributes": attributes}


def _value(record: dict[str, Any]) -> Any:
    ((kind, value),) = record.items()
    if kind == "arrayValue":
        return [_value(item) for item in value["values"]]
    return int(value) if kind == "intValue" else value
