"""Load: reads many concurrent answers in one process, as cheaply as Python can.

It only counts: it searches the bytes for a mark and discards them. Every figure includes its own
CPU time, so that you can see whether the load generator was the limit.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import selectors
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

PATIENCE_S: Final = 120.0
KEY: Final = "sk-" + secrets.token_hex(24)
"""The key of this run; servers that require one get it when they start."""
_RECEIVE: Final = 256 * 1024


@dataclass(frozen=True, slots=True)
class Question:
    """A request to a server, and how to recognise its chunks."""

    path: str
    body: Mapping[str, Any]
    mark: bytes
    """Occurs once in every chunk with text, and nowhere else."""
    last: bytes | None = None
    """Occurs in the last chunk, if the server does not close the connection after it."""

    def bytes(self, port: int) -> bytes:
        data = json.dumps(self.body).encode()
        head = (
            f"POST {self.path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n"
            f"Content-Type: application/json\r\nAuthorization: Bearer {KEY}\r\n"
            f"Content-Length: {len(data)}\r\n\r\n"
        )
        return head.encode() + data


@dataclass(frozen=True, slots=True)
class Loaded:
    chunks: int
    bytes: int
    wall_s: float
    cpu_s: float
    """CPU time of this process: if it approaches `wall_s`, the load generator was the limit."""


def load(port: int, question: Question, streams: int) -> Loaded:
    """Sends `streams` requests at once, and reads every answer to its end."""
    chunks = size = 0
    request, mark, last = question.bytes(port), question.mark, question.last
    overlap = max(len(mark), len(last or b"")) - 1
    with contextlib.ExitStack() as stack, selectors.DefaultSelector() as waiting:
        socks = [stack.enter_context(connected(port)) for _ in range(streams)]
        wall_s, cpu_s = time.perf_counter(), time.process_time()
        for sock in socks:
            sock.sendall(request)
            sock.setblocking(False)
            waiting.register(sock, selectors.EVENT_READ, _Tail())
        while waiting.get_map():
            ready = waiting.select(PATIENCE_S)
            if not ready or time.perf_counter() - wall_s > PATIENCE_S:
                raise TimeoutError(f"{len(waiting.get_map())} answers did not end")
            for key, _ in ready:
                data = key.fileobj.recv(_RECEIVE)  # type: ignore[union-attr]
                if not data:
                    waiting.unregister(key.fileobj)
                    continue
                tail = key.data
                chunks += (tail.data[1 - len(mark) :] + data).count(mark)
                if last is not None and last in tail.data + data:
                    waiting.unregister(key.fileobj)
                tail.data = data[-overlap:]
                size += len(data)
        took_s = time.perf_counter() - wall_s, time.process_time() - cpu_s
    return Loaded(chunks, size, *took_s)


class _Tail:
    """The last bytes of a connection: a mark may be split."""

    __slots__ = ("data",)

    def __init__(self) -> None:
        self.data = b""


def connected(port: int, receive_bytes: int | None = None) -> socket.socket:
    """A connection; the kernel keeps so many bytes for its reader, or as many as it likes."""
    sock = socket.socket()
    if receive_bytes is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    sock.settimeout(10)
    sock.connect(("127.0.0.1", port))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def text_of(port: int, question: Question) -> str:
    """The text of one answer, joined: it must be correct before an entry is timed."""
    import http.client

    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    with contextlib.closing(connection):
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {KEY}"}
        connection.request("POST", question.path, json.dumps(question.body), headers)
        answer = connection.getresponse()
        data = answer.read().decode()
    if answer.status != 200:
        raise AssertionError(f"{question.path}: {answer.status} {data[:300]}")
    lines = [line[6:] for line in data.splitlines() if line.startswith("data: ")]
    return "".join(_text(json.loads(line)) for line in lines if line != "[DONE]")


def _text(event: dict[str, Any]) -> str:
    if "choices" not in event:
        return event.get("text") or ""
    return "".join(choice["delta"].get("content") or "" for choice in event["choices"])
