"""Valid requests, of which the fuzzer changes a part."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

import h2.config
import h2.connection
from websockets.frames import Frame, Opcode

CHAT: Final = json.dumps({"messages": [{"role": "user", "content": "Hi"}], "stream": True}).encode()
HOST: Final = b"Host: localhost\r\n"


@dataclass(frozen=True, slots=True)
class Seed:
    kind: str
    before: bytes
    """Sent as it is."""
    changed: bytes
    """The part that is changed."""


def _posted(headers: bytes, body: bytes) -> bytes:
    return b"POST /v1/chat/completions HTTP/1.1\r\n" + HOST + headers + b"\r\n" + body


def _heads() -> list[bytes]:
    length = b"Content-Type: application/json\r\nContent-Length: %d\r\n" % len(CHAT)
    chunked = b"%x\r\n%s\r\n0\r\n\r\n" % (len(CHAT), CHAT)
    return [
        b"GET /v1/models HTTP/1.1\r\n" + HOST + b"Accept: */*\r\n\r\n",
        b"HEAD / HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n",
        b"OPTIONS * HTTP/1.1\r\n" + HOST + b"\r\n",
        _posted(length, CHAT),
        _posted(b"Transfer-Encoding: chunked\r\n", chunked),
        _posted(b"Expect: 100-continue\r\n" + length, CHAT),
        UPGRADE,
    ]


UPGRADE: Final = (
    b"GET /v1/ws HTTP/1.1\r\n" + HOST + b"Connection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


def _http2(headers: list[tuple[str, str]], body: bytes) -> tuple[bytes, bytes]:
    """The preface with the settings, and the frames of one request."""
    connection = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding=None))
    connection.initiate_connection()
    preface = connection.data_to_send()
    connection.send_headers(1, headers, end_stream=not body)
    if body:
        connection.send_data(1, body, end_stream=True)
    connection.ping(b"12345678")
    connection.increment_flow_control_window(1 << 16)
    return preface, connection.data_to_send()


def _request(path: str, kind: str) -> list[tuple[str, str]]:
    scheme = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", path),
        (":authority", "localhost"),
    ]
    return [*scheme, ("content-type", kind), ("te", "trailers")]


def _messages() -> list[bytes]:
    start = {"type": "start", "stream_id": "a", "flow": "chat", "prompt": "Hi"}
    text, cancel = json.dumps(start).encode(), b'{"type":"cancel","stream_id":"a"}'
    ping = _frame(Opcode.PING, b"ping")
    return [
        _frame(Opcode.TEXT, text),
        _frame(Opcode.TEXT, text) + _frame(Opcode.TEXT, cancel),
        _frame(Opcode.TEXT, text[:9], fin=False) + ping + _frame(Opcode.CONT, text[9:]),
        ping + _frame(Opcode.CLOSE, b"\x03\xe8bye"),
    ]


def _frame(opcode: Opcode, data: bytes, *, fin: bool = True) -> bytes:
    return Frame(opcode, data, fin).serialize(mask=True, extensions=None)


def seeds() -> list[Seed]:
    made = [Seed("HTTP/1.1 heads and bodies", b"", head) for head in _heads()]
    http2 = _http2(_request("/v1/chat/completions", "application/json"), CHAT)
    made += [Seed("HTTP/2 frames", *http2), Seed("HTTP/2 frames", b"", b"".join(http2))]
    made += [Seed("WebSocket frames", UPGRADE, message) for message in _messages()]
    generate = _request("/torvyn.v1.Inference/Generate", "application/grpc")
    for message in (b"", b"\x0a\x04chat\x12\x02Hi"):
        prefixed = b"\x00" + len(message).to_bytes(4, "big") + message
        preface, sent = _http2(generate, prefixed * 2)
        cut = sent.index(prefixed)
        made.append(Seed("gRPC prefixes and messages", preface + sent[:cut], sent[cut:]))
    return made
