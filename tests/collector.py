"""A collector of traces: a real server on loopback that keeps what it is sent, or refuses it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PATIENCE_S = 10.0


class Collector:
    """What it was sent, as spans with their attributes as a dict."""

    def __init__(self, port: int = 0) -> None:
        self.spans: list[dict[str, Any]] = []
        self.bodies: list[bytes] = []
        self.paths: list[str] = []
        self.statuses: list[int] = []
        """What it answers next; 200 when nothing is left."""
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
        """The spans, as soon as there are so many."""
        with self._changed:
            found = self._changed.wait_for(lambda: len(self.spans) >= count, PATIENCE_S)
            assert found, f"{len(self.spans)} spans came"
            return list(self.spans)

    def until_asked(self, times: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.bodies) >= times, PATIENCE_S)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(PATIENCE_S)


@contextmanager
def collecting(port: int = 0) -> Iterator[Collector]:
    collector = Collector(port)
    try:
        yield collector
    finally:
        collector.close()


def wait_until(condition: Any) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end_s, "it never came"
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
            """Nothing: the test reads what came."""

    return Handler


def _read(span: dict[str, Any]) -> dict[str, Any]:
    held = {one["key"]: _value(one["value"]) for one in span["attributes"]}
    return {**span, "attributes": held}


def _value(value: dict[str, Any]) -> Any:
    ((kind, held),) = value.items()
    if kind == "arrayValue":
        return [_value(one) for one in held["values"]]
    return int(held) if kind == "intValue" else held
