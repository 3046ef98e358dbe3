"""A WebSocket client that sends any bytes, also those that no library sends."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from live_server import Served

TEXT, BINARY, CLOSE, PING, PONG = 0x81, 0x82, 0x88, 0x89, 0x8A
FIRST, MORE, LAST = 0x01, 0x00, 0x80
"""Parts of a text message."""
HANDSHAKE = {
    "Host": "localhost",
    "Upgrade": "websocket",
    "Connection": "keep-alive, Upgrade",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}
ACCEPT = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
"""The answer to that key (RFC 6455, 1.3)."""


def handshake(line: str = "GET /v1/ws HTTP/1.1", **changes: str | None) -> bytes:
    """`changes` replace headers, with `_` for `-`; None removes one."""
    headers = HANDSHAKE | {name.replace("_", "-"): value for name, value in changes.items()}
    lines = [f"{name}: {value}" for name, value in headers.items() if value is not None]
    return "\r\n".join([line, *lines, "", ""]).encode()


def frame(first: int, data: bytes | str = b"", mask: bytes | None = b"\x01\x02\x03\x04") -> bytes:
    """Its first byte has the opcode, and the bit of the last frame of a message."""
    data = data.encode() if isinstance(data, str) else data
    length = len(data)
    if length < 126:
        size = bytes((length,))
    else:
        size = b"\x7e" + length.to_bytes(2) if length <= 0xFFFF else b"\x7f" + length.to_bytes(8)
    if mask is None:
        return bytes((first,)) + size + data
    masked = bytes(byte ^ mask[place % 4] for place, byte in enumerate(data))
    return bytes((first, size[0] | 0x80)) + size[1:] + mask + masked


def said(**message: Any) -> bytes:
    return frame(TEXT, json.dumps(message))


class RawSocket:
    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._got = b""

    def send(self, *frames: bytes) -> None:
        self.sock.sendall(b"".join(frames))

    def read(self) -> tuple[int, bytes]:
        """The next frame: its first byte and its payload. Raises `EOFError` at the end."""
        first, length = self.take(2)
        if length >= 126:
            length = int.from_bytes(self.take(2 if length == 126 else 8))
        return first, self.take(length)

    def hear(self) -> dict[str, Any]:
        first, data = self.read()
        assert first == TEXT, (first, data)
        message: dict[str, Any] = json.loads(data)
        return message

    def closed_with(self) -> int:
        """The code of the close frame, which is the last thing that comes."""
        first, data = self.read()
        while first != CLOSE:
            first, data = self.read()
        assert not self.sock.recv(1), "something came after the close frame"
        return int.from_bytes(data[:2])

    def reset(self) -> None:
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()

    def head(self) -> str:
        while b"\r\n\r\n" not in self._got:
            self._receive()
        head, _, self._got = self._got.partition(b"\r\n\r\n")
        return head.decode()

    def take(self, count: int) -> bytes:
        while len(self._got) < count:
            self._receive()
        taken, self._got = self._got[:count], self._got[count:]
        return taken

    def _receive(self) -> None:
        data = self.sock.recv(65536)
        if not data:
            raise EOFError
        self._got += data


@contextmanager
def asking(server: Served, request: bytes, **options: Any) -> Iterator[RawSocket]:
    with server.connect(**options) as sock:
        raw = RawSocket(sock)
        raw.send(request)
        yield raw


@contextmanager
def accepted(server: Served, *sent: bytes, **options: Any) -> Iterator[RawSocket]:
    """A socket whose handshake succeeds; the frames follow it without a pause."""
    with asking(server, handshake() + b"".join(sent), **options) as raw:
        assert " 101 " in raw.head()
        yield raw
