"""A collector for the example: receives windows over HTTP and stores each of them once.

    python collector.py [--port 8787] [--file windows.jsonl]

It knows a window by its `Idempotency-Key`. One that it already has is answered with 200 and not
stored again, also after a restart.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


class Collector(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, port: int, file: Path, rejected: str | None) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.file = file
        self.rejected = rejected
        self.keys = set(_stored_keys(file))
        self._lock = threading.Lock()

    def store(self, key: str, window: bytes) -> int:
        """Stores a window that is new; returns the status of the answer."""
        if key == self.rejected:
            return 422
        with self._lock:
            if key not in self.keys:
                with self.file.open("ab") as lines:
                    lines.write(window + b"\n")
                self.keys.add(key)
        return 200


def _stored_keys(file: Path) -> Iterator[str]:
    for line in file.read_text().splitlines() if file.exists() else ():
        window = json.loads(line)
        yield f"{window['device']}-{window['first']}-{window['last']}"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        assert isinstance(self.server, Collector)
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(self.server.store(self.headers["Idempotency-Key"], body))
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        pass


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--port", type=int, default=8787, help="0 means any free port")
    parser.add_argument("--file", type=Path, default=Path("windows.jsonl"))
    parser.add_argument("--reject", metavar="KEY", help="answer the window with this key with 422")
    options = parser.parse_args()
    try:
        collector = Collector(options.port, options.file, options.reject)
    except OSError as error:
        sys.exit(f"cannot listen on port {options.port}: {error.strerror}; choose another: --port")
    print(f"port {collector.server_port}, file {options.file}", flush=True)
    collector.serve_forever()


if __name__ == "__main__":
    main()
