"""The collector: an HTTP server that counts readings, and that can go away.

`close` closes the port and every accepted connection: a connection that is kept alive would hide
the outage. Bodies are parsed when somebody asks, not while they arrive.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from io import BufferedReader
from typing import Final

from benches.edge.readings import WARM_UP, now_us, numbers_and_times

_OK: Final = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
_CHECK_S: Final = 0.01


@dataclass(slots=True)
class Delivered:
    """The readings that arrived, in order of arrival."""

    seqs: list[int] = field(default_factory=list)
    dues_us: list[int] = field(default_factory=list)
    arrivals_us: list[int] = field(default_factory=list)

    def between(self, first: int, end: int) -> Delivered:
        """Those of the readings `first <= seq < end`."""
        rows = zip(self.seqs, self.dues_us, self.arrivals_us, strict=True)
        kept = Delivered()
        for seq, due, arrival in rows:
            if first <= seq < end:
                kept.add(seq, due, arrival)
        return kept

    def until(self, end_us: int) -> Delivered:
        """Those that were due before this time."""
        kept = Delivered()
        for seq, due, arrival in zip(self.seqs, self.dues_us, self.arrivals_us, strict=True):
            if due < end_us:
                kept.add(seq, due, arrival)
        return kept

    def add(self, seq: int, due_us: int, arrival_us: int) -> None:
        self.seqs.append(seq)
        self.dues_us.append(due_us)
        self.arrivals_us.append(arrival_us)

    def latencies_ms(self) -> list[float]:
        """Of the first delivery of each reading."""
        seen: set[int] = set()
        found = []
        for seq, due, arrival in zip(self.seqs, self.dues_us, self.arrivals_us, strict=True):
            if seq not in seen:
                seen.add(seq)
                found.append((arrival - due) / 1000)
        return found

    def repeated(self) -> int:
        return len(self.seqs) - len(set(self.seqs))

    def lost(self, expected: range) -> int:
        return len(set(expected) - set(self.seqs))

    def out_of_order(self) -> int:
        """Readings whose first delivery came after that of a later one."""
        seen: set[int] = set()
        highest, wrong = -1, 0
        for seq in self.seqs:
            if seq not in seen:
                seen.add(seq)
                wrong += seq < highest
                highest = max(highest, seq)
        return wrong

    def wall_s(self) -> float:
        """From the first arrival to the last."""
        return (self.arrivals_us[-1] - self.arrivals_us[0]) / 1e6


class Collector:
    """Listens from `open` to `close`, always at the same port."""

    def __init__(self) -> None:
        self.port = 0
        self._listener: socket.socket | None = None
        self._connections: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._bodies: list[tuple[int, bytes]] = []
        self._parsed = 0
        self._delivered = Delivered()
        self._warm = 0
        self.requests = 0

    def open(self) -> None:
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", self.port))
        listener.listen(128)
        self.port = listener.getsockname()[1]
        self._listener = listener
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def close(self) -> None:
        with self._lock:
            listener, self._listener = self._listener, None
            sockets = [*self._connections, *([listener] if listener else [])]
            self._connections.clear()
        for sock in sockets:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()

    def delivered(self) -> Delivered:
        """What has arrived so far, without the warm-up."""
        self._parse()
        return self._delivered

    def forget(self) -> None:
        self._parse()
        self._delivered, self._warm = Delivered(), 0

    def is_warm(self) -> bool:
        self._parse()
        return self._warm > 0

    def wait_for(self, expected: range, limit_s: float, quiet_s: float = 12.0) -> bool:
        """Whether all of them arrived before the limit, or before nothing new came for so long."""
        until = time.monotonic() + limit_s
        missing = set(expected)
        taken, changed = 0, time.monotonic()
        while time.monotonic() < min(until, changed + quiet_s):
            seqs = self.delivered().seqs
            if len(seqs) > taken:
                missing.difference_update(seqs[taken:])
                taken, changed = len(seqs), time.monotonic()
            if not missing:
                return True
            time.sleep(_CHECK_S)
        return False

    def _parse(self) -> None:
        while self._parsed < len(self._bodies):
            at_us, body = self._bodies[self._parsed]
            self._bodies[self._parsed] = (0, b"")
            self._parsed += 1
            seqs, dues = numbers_and_times(body)
            for seq, due in zip(seqs, dues, strict=True):
                if seq >= WARM_UP:
                    self._warm += 1
                    continue
                self._delivered.add(seq, due, at_us)

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with self._lock:
                    if self._listener is not listener:
                        connection.close()
                        return
                    self._connections.add(connection)
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with connection.makefile("rb", 65_536) as stream:
                while (body := _read_request(stream)) is not None:
                    with self._lock:
                        if connection not in self._connections:
                            return
                        # Under the lock: what `close` cuts off was not counted.
                        self._bodies.append((now_us(), body))
                        self.requests += 1
                        connection.sendall(_OK)
        except OSError:
            pass
        finally:
            with self._lock:
                self._connections.discard(connection)
            connection.close()


def _read_request(stream: BufferedReader) -> bytes | None:
    """The body of the next request, or None at the end of the connection."""
    if not stream.readline():
        return None
    size, is_chunked = 0, False
    while (line := stream.readline()) not in (b"\r\n", b""):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            size = int(value)
        elif name.lower() == b"transfer-encoding":
            is_chunked = b"chunked" in value.lower()
    body = b"".join(_chunks(stream)) if is_chunked else stream.read(size)
    return body if is_chunked or len(body) == size else None


def _chunks(stream: BufferedReader) -> Iterator[bytes]:
    while size := int(stream.readline().strip() or b"0", 16):
        yield stream.read(size)
        stream.readline()
    stream.readline()
