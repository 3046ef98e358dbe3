"""A web server for the files of a channel, which can cut, slow down and prolong its answers."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


class ChannelServer(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Exchange)
        self.folder = folder
        self.sent = 0
        """Bytes of bodies."""
        self._left: list[int] | None = None
        self.resumes = True
        self.body: Callable[[bytes], Iterator[bytes]] = lambda data: iter((data,))
        """The chunks of an answer."""

    def cut_after(self, count: int | None) -> None:
        """Cuts the connection after so many bytes of bodies; None cuts no more."""
        self._left = None if count is None else [count]

    def allowed(self, chunk: bytes) -> bytes:
        """The part of a chunk that may be sent."""
        left = self._left
        if left is None:
            return chunk
        part = chunk[: left[0]]
        left[0] -= len(part)
        return part

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass


class _Exchange(http.server.BaseHTTPRequestHandler):
    server: ChannelServer

    def do_GET(self) -> None:
        path = self.server.folder / self.path.lstrip("/")
        if not path.is_file():
            self.send_error(404)
            return
        data, start = path.read_bytes(), 0
        if self.server.resumes and (given := self.headers.get("Range")):
            start = int(given.removeprefix("bytes=").removesuffix("-"))
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(data) - start))
        self.end_headers()
        for chunk in self.server.body(data[start:]):
            self._send(chunk)

    def _send(self, chunk: bytes) -> None:
        part = self.server.allowed(chunk)
        self.wfile.write(part)
        self.wfile.flush()
        self.server.sent += len(part)
        if len(part) < len(chunk):
            raise ConnectionAbortedError

    def log_message(self, format: str, *arguments: Any) -> None:
        pass


@contextmanager
def channel_server(folder: Path) -> Iterator[ChannelServer]:
    with ChannelServer(folder) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
