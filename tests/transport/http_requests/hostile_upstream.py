"""An upstream on a real socket that leaks private details in every way."""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
CHUNK = {"id": "c", "choices": [{"index": 0, "delta": {"content": "word "}}]}
WORDS = (
    "Traceback (most recent call last): httpx.ReadError at http://10.1.2.3:9000/v1 "
    "in /srv/models/server.py, key sk-upstream-0123456789"
)
"""What no client may read."""


def event(data: object) -> bytes:
    return f"data: {json.dumps(data)}\n\n".encode()


def status(number: int, body: str = "") -> bytes:
    data = (body or json.dumps({"error": {"message": WORDS, "code": WORDS}})).encode()
    head = f"HTTP/1.1 {number} Word\r\nContent-Length: {len(data)}\r\nConnection: close\r\n\r\n"
    return head.encode() + data


ANSWERS = {
    "an error in the middle": HEAD + event(CHUNK) + event({"error": {"message": WORDS}}),
    "an error event": HEAD + event(CHUNK) + f"event: error\ndata: {WORDS}\n\n".encode(),
    "a chunk that is none": HEAD + event(CHUNK) + f"data: {{{WORDS}\n\n".encode(),
    "a cut in the middle": HEAD + event(CHUNK),
    "a status in place of an answer": status(500),
    "a key that is refused": status(401),
    "a model that is not there": status(404),
    "a request that is refused": status(400),
    "an answer that is no HTTP": WORDS.encode(),
    "nothing at all": b"",
}


@contextmanager
def upstream(answer: bytes) -> Iterator[str]:
    """The address of a server that sends these bytes to everybody and breaks off."""
    listener = socket.create_server(("127.0.0.1", 0))
    is_over = threading.Event()

    def serve() -> None:
        while not is_over.is_set():
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(5)
                _read(connection)
                connection.sendall(answer)
                if not answer:
                    linger = struct.pack("ii", 1, 0)
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)

    thread = threading.Thread(target=serve, name="hostile-upstream")
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
    finally:
        is_over.set()
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(5)


def _read(connection: socket.socket) -> None:
    """The whole request: one that is not read is answered by a reset."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(65536)
    head, _, body = data.partition(b"\r\n\r\n")
    lines = head.lower().split(b"\r\n")
    size = next(int(line[15:]) for line in lines if line.startswith(b"content-length:"))
    while len(body) < size:
        body += connection.recv(65536)
