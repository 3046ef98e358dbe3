"""A gRPC call by a client that may break every rule, over a real connection."""

from __future__ import annotations

import socket
from typing import Any

import h2.config
import h2.connection
import h2.events
from live_server import PATIENCE_S

HEAD = {
    ":method": "POST",
    ":scheme": "http",
    ":path": "/torvyn.v1.Inference/Generate",
    ":authority": "localhost",
    "content-type": "application/grpc",
    "te": "trailers",
}


def prefixed(data: bytes, flag: int = 0) -> bytes:
    return bytes([flag]) + len(data).to_bytes(4, "big") + data


class RawCall:
    """One call on its own connection. It grants no more data than the first window."""

    def __init__(self, address: str, **head: str) -> None:
        host, _, port = address.rpartition(":")
        self._sock = socket.create_connection((host, int(port)), timeout=PATIENCE_S)
        config = h2.config.H2Configuration(header_encoding="utf-8")
        self._wire = h2.connection.H2Connection(config)
        self._wire.initiate_connection()
        names = {name.replace("_", "-"): value for name, value in head.items()}
        self._wire.send_headers(1, list({**HEAD, **names}.items()))
        self.headers: dict[str, str] = {}
        self.trailers: dict[str, str] = {}
        self.data = b""
        self.reset: int | None = None
        self._flush()

    def send(self, data: bytes, is_last: bool = False) -> None:
        self._wire.send_data(1, data, end_stream=is_last)
        self._flush()

    def cancel(self) -> None:
        self._wire.reset_stream(1, 8)
        self._flush()

    def read_to_end(self) -> RawCall:
        """Reads until the server has ended the call, or broken it."""
        while not self._read():
            pass
        self._sock.close()
        return self

    @property
    def status(self) -> str | None:
        """Of the trailers, or of a head that is all there is."""
        return (self.trailers or self.headers).get("grpc-status")

    def _read(self) -> bool:
        part = self._sock.recv(65536)
        assert part, "the server has closed the connection"
        ends = [self._take(event) for event in self._wire.receive_data(part)]
        self._flush()
        return any(ends)

    def _take(self, event: Any) -> bool:
        if isinstance(event, h2.events.ResponseReceived):
            self.headers = dict(event.headers)
        elif isinstance(event, h2.events.TrailersReceived):
            self.trailers = dict(event.headers)
        elif isinstance(event, h2.events.DataReceived):
            self.data += event.data
        elif isinstance(event, h2.events.StreamReset):
            self.reset = int(event.error_code)
        return isinstance(event, h2.events.StreamEnded | h2.events.StreamReset)

    def _flush(self) -> None:
        self._sock.sendall(self._wire.data_to_send())
