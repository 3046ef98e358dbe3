"""Load over WebSockets: one socket per answer, and sockets that stay idle."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from benches.load import PATIENCE_S, Question, connected

STREAM: Final = "s"
_ACCEPTED: Final = b" 101 "
_TEXT: Final = 0x81


def handshake(port: int) -> bytes:
    head = (
        f"GET /v1/ws HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\n"
        "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    return head.encode()


def message(record: Mapping[str, Any]) -> bytes:
    """A text message of less than 126 bytes, with a mask that changes nothing."""
    data = json.dumps(record).encode()
    assert len(data) < 126
    return bytes((_TEXT, 0x80 | len(data), 0, 0, 0, 0)) + data


@dataclass(frozen=True, slots=True)
class SocketQuestion(Question):
    """Starts one stream on a socket of its own, in the same packet as the handshake."""

    def bytes(self, port: int) -> bytes:
        return handshake(port) + message({"type": "start", "stream_id": STREAM, **self.body})


def idle_socket(port: int) -> socket.socket:
    """A WebSocket that is accepted and sends nothing."""
    sock = connected(port)
    sock.sendall(handshake(port))
    got = b""
    while b"\r\n\r\n" not in got:
        got += sock.recv(4096)
    if _ACCEPTED not in got:
        raise AssertionError(got.decode(errors="replace"))
    return sock


def text_of_socket(port: int, question: Question) -> str:
    """The text of one answer: it must be correct before an entry is timed."""
    from websockets.sync.client import connect

    texts = []
    with connect(f"ws://127.0.0.1:{port}/v1/ws", proxy=None) as client:
        client.send(json.dumps({"type": "start", "stream_id": STREAM, **question.body}))
        while (frame := json.loads(client.recv(PATIENCE_S)))["type"] != "end":
            texts.append(frame.get("text", ""))
    return "".join(texts)
