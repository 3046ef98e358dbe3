"""A publisher in its own process: QoS 1, paced or as fast as the broker takes it.

    python -m benches.edge.publisher PORT FIRST COUNT RATE

It writes MQTT 3.1.1 packets itself: at 10,000 readings per second a client library would use half
of a core that the gateway needs. RATE 0 does not pace. It ends when the broker has acknowledged
every reading.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from benches.edge.readings import TOPIC, now_us, reading

TICK_S = 0.001
BURST = 500
"""Readings per write when not paced."""
WINDOW = 20_000
"""Readings that the broker may not have acknowledged yet."""
_CONNECT = b"\x00\x04MQTT\x04\x02\x00\x00"
_PUBACK_BYTES = 4


def start(port: int, first: int, count: int, rate: float = 0) -> subprocess.Popen[bytes]:
    words = [sys.executable, "-m", __name__, str(port), str(first), str(count), str(rate)]
    return subprocess.Popen(words, cwd=Path(__file__).parents[2])


def publish(port: int, first: int, count: int, rate: float = 0) -> None:
    """Returns when all readings are with the broker."""
    process = start(port, first, count, rate)
    if process.wait(600) != 0:
        raise RuntimeError("the publisher failed")


def connect_packet(client_id: bytes) -> bytes:
    rest = _CONNECT + len(client_id).to_bytes(2, "big") + client_id
    return b"\x10" + _length(len(rest)) + rest


def publish_packet(packet_id: int, payload: bytes, topic: bytes = TOPIC.encode()) -> bytes:
    head = len(topic).to_bytes(2, "big") + topic + packet_id.to_bytes(2, "big")
    return b"\x32" + _length(len(head) + len(payload)) + head + payload


class Publisher:
    """One connection. A second thread counts the acknowledgements."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), 10)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.sendall(connect_packet(b"publisher-%d" % now_us()))
        if self._socket.recv(4)[3:] != b"\x00":
            raise ConnectionError("the broker refused the publisher")
        self._socket.settimeout(None)
        self._sent = 0
        self._acknowledged = 0
        self._changed = threading.Condition()
        threading.Thread(target=self._read, daemon=True).start()

    def send(self, first: int, dues_us: Sequence[int]) -> None:
        packets = [
            publish_packet((first + n) % 65_535 + 1, reading(first + n, due))
            for n, due in enumerate(dues_us)
        ]
        self._sent += len(packets)
        self._wait_for(self._sent - WINDOW)
        self._socket.sendall(b"".join(packets))

    def finish(self) -> None:
        self._wait_for(self._sent)
        self._socket.close()

    def _wait_for(self, acknowledged: int) -> None:
        with self._changed:
            if not self._changed.wait_for(lambda: self._acknowledged >= acknowledged, 600):
                raise TimeoutError("the broker does not acknowledge")

    def _read(self) -> None:
        received = 0
        while part := self._receive():
            received += len(part)
            with self._changed:
                self._acknowledged = received // _PUBACK_BYTES
                self._changed.notify_all()

    def _receive(self) -> bytes:
        try:
            return self._socket.recv(65_536)
        except OSError:
            return b""


def run(port: int, first: int, count: int, rate: float) -> None:
    publisher = Publisher(port)
    if rate:
        _paced(publisher, first, count, rate)
    else:
        for start_at in range(0, count, BURST):
            size = min(BURST, count - start_at)
            publisher.send(first + start_at, [now_us()] * size)
    publisher.finish()


def _paced(publisher: Publisher, first: int, count: int, rate: float) -> None:
    """A reading's time is the time at which it was due, so a late publisher hides no delay."""
    began_us, sent = now_us(), 0
    while sent < count:
        due = min(count, int((now_us() - began_us) * rate / 1e6) + 1)
        if due > sent:
            dues = [began_us + int(n * 1e6 / rate) for n in range(sent, due)]
            publisher.send(first + sent, dues)
            sent = due
        time.sleep(TICK_S)


def _length(value: int) -> bytes:
    """MQTT's variable length."""
    out = bytearray()
    while True:
        value, byte = divmod(value, 128)
        out.append(byte | (0x80 if value else 0))
        if not value:
            return bytes(out)


if __name__ == "__main__":
    run(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))
