"""Load for gRPC servers: reads many concurrent calls in one process, as cheaply as Python can.

It speaks as much HTTP/2 as that needs: it allows any amount of data, counts the messages of DATA
frames, and discards everything else.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import struct
import time
from typing import Any, Final

from benches.load import PATIENCE_S, Loaded, connected

GENERATE: Final = "/torvyn.v1.Inference/Generate"
_DATA, _HEADERS, _SETTINGS, _WINDOW = 0, 1, 4, 8
_END_STREAM, _END_HEADERS, _ACK = 1, 4, 1
_LARGEST: Final = 2**31 - 1
_RECEIVE: Final = 256 * 1024


def load(port: int, request: bytes, streams: int, connections: int) -> Loaded:
    """Makes `streams` calls over `connections` connections, and reads every answer to its end."""
    with contextlib.ExitStack() as stack, selectors.DefaultSelector() as waiting:
        readers = []
        for number in range(connections):
            sock = stack.enter_context(connected(port))
            calls = streams // connections + (number < streams % connections)
            readers.append(_Reader(sock, calls))
        wall_s, cpu_s = time.perf_counter(), time.process_time()
        for reader in readers:
            reader.ask(request)
            waiting.register(reader.sock, selectors.EVENT_READ, reader)
        while waiting.get_map():
            ready = waiting.select(PATIENCE_S)
            if not ready or time.perf_counter() - wall_s > PATIENCE_S:
                raise TimeoutError(f"{len(waiting.get_map())} connections did not end")
            for key, _ in ready:
                if key.data.has_ended():
                    waiting.unregister(key.fileobj)
        took_s = time.perf_counter() - wall_s, time.process_time() - cpu_s
    chunks = sum(reader.messages for reader in readers)
    return Loaded(chunks, sum(reader.bytes for reader in readers), *took_s)


class _Reader:
    """One connection and its calls."""

    def __init__(self, sock: socket.socket, calls: int) -> None:
        self.sock = sock
        self.messages = self.bytes = 0
        self._calls = calls
        self._rest = b""
        self._has_begun = False
        self._skip: dict[int, int] = {}
        """Per stream, how much of a message is still to come; below 0, how much of its prefix."""
        self._prefixes: dict[int, bytes] = {}

    def ask(self, request: bytes) -> None:
        settings = struct.pack(">HI", 4, _LARGEST)
        parts = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", _frame(_SETTINGS, 0, 0, settings)]
        parts.append(_frame(_WINDOW, 0, 0, struct.pack(">I", _LARGEST - 65535)))
        body = b"\0" + struct.pack(">I", len(request)) + request
        for call in range(self._calls):
            parts.append(_frame(_HEADERS, _END_HEADERS, 2 * call + 1, _HEAD))
            parts.append(_frame(_DATA, _END_STREAM, 2 * call + 1, body))
        self.sock.sendall(b"".join(parts))
        self.sock.setblocking(False)

    def has_ended(self) -> bool:
        """Reads what has arrived; True when the last call has ended."""
        data = self.sock.recv(_RECEIVE)
        if not data:
            raise ConnectionError("the server has closed the connection")
        if not self._has_begun:
            self._has_begun = True
            self.sock.sendall(_frame(_SETTINGS, _ACK, 0, b""))
        self.bytes += len(data)
        data = self._rest + data
        at = 0
        while len(data) - at >= 9:
            end = at + 9 + int.from_bytes(data[at : at + 3], "big")
            if end > len(data):
                break
            stream = int.from_bytes(data[at + 5 : at + 9], "big")
            if data[at + 3] == _DATA:
                self._count(stream, data[at + 9 : end])
            if data[at + 3] in (_DATA, _HEADERS) and data[at + 4] & _END_STREAM:
                self._calls -= 1
            at = end
        self._rest = data[at:]
        return self._calls == 0

    def _count(self, stream: int, data: bytes) -> None:
        """Counts the messages that begin in the data of that stream."""
        at = self._skip.get(stream, 0)
        data = self._prefixes.pop(stream, b"") + data
        while at + 5 <= len(data):
            self.messages += 1
            at += 5 + int.from_bytes(data[at + 1 : at + 5], "big")
        if at < len(data):
            self._prefixes[stream], at = data[at:], len(data)
        self._skip[stream] = at - len(data)


def _frame(kind: int, flags: int, stream: int, data: bytes) -> bytes:
    return struct.pack(">IBBI", len(data), kind, flags, stream)[1:] + data


def _head() -> bytes:
    """Literal headers, which no compression table of the server keeps."""
    head = {":method": "POST", ":scheme": "http", ":path": GENERATE, ":authority": "localhost"}
    head |= {"content-type": "application/grpc", "te": "trailers"}
    words = [word.encode() for pair in head.items() for word in pair]
    coded = [bytes([len(word)]) + word for word in words]
    return b"".join(b"\0" + coded[at] + coded[at + 1] for at in range(0, len(coded), 2))


_HEAD: Final = _head()


def text_of(port: int) -> str:
    """The text of one answer, as gRPC's own client reads it."""
    import grpc

    from torvyn.v1 import inference_pb2 as pb
    from torvyn.v1.inference_pb2_grpc import InferenceStub

    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub: Any = InferenceStub(channel)
        frames = stub.Generate(pb.GenerateRequest(prompt="Hi"), timeout=30)
        return "".join(frame.delta.text for frame in frames)
