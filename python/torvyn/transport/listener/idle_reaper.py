"""Closes connections that send no request.

The server below waits for the first bytes of a connection without a time limit, and holds a limited
number of connections: a few thousand silent ones would lock every other client out. The kernel
knows how many bytes each connection has received. This checks a few at a time, and reads no data.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import stat
import struct
import sys
from collections.abc import Collection, Iterator
from typing import Final

TIMEOUT_MS: Final = 10_000
"""As long as the headers of a request may take."""
_MIN_REQUEST_BYTES: Final = 24
"""The length of HTTP/2's preface; every HTTP/1 request is longer."""
_INTERVAL_S: Final = 0.5
_BATCH: Final = 256
_LAST_RECEIVED: Final = 52
_BYTES_RECEIVED: Final = 128
_INFO_BYTES: Final = 136
"""Offsets in `struct tcp_info`: ms since data was received, bytes received, size up to there."""


class IdleReaper:
    """Checks the connections to these ports from `start`, on a loop, until `stop`."""

    def __init__(self, *ports: int, timeout_ms: int = TIMEOUT_MS) -> None:
        self._ports = frozenset(ports)
        self._timeout_ms = timeout_ms
        self._unchecked: Iterator[int] = iter(())
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        if sys.platform == "linux":
            self._timer = asyncio.get_running_loop().call_later(_INTERVAL_S, self._check)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _check(self) -> None:
        count = 0
        for count, descriptor in enumerate(self._unchecked, 1):
            if _is_silent(descriptor, self._ports, self._timeout_ms):
                self._shut_down(descriptor)
            if count == _BATCH:
                break
        if count < _BATCH:
            with contextlib.suppress(OSError):
                self._unchecked = map(int, os.listdir("/proc/self/fd"))
        self.start()

    def _shut_down(self, descriptor: int) -> None:
        # The number may belong to another connection by now; a copy keeps its connection.
        with contextlib.suppress(OSError):
            copy = os.dup(descriptor)
            try:
                if _is_silent(copy, self._ports, self._timeout_ms):
                    sock = socket.socket(fileno=copy)
                    with contextlib.suppress(OSError):
                        sock.shutdown(socket.SHUT_RDWR)
                    sock.detach()
            finally:
                os.close(copy)


def _is_silent(descriptor: int, ports: Collection[int], timeout_ms: int) -> bool:
    """Whether it is a connection to one of the ports that has sent no request in time."""
    try:
        if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
            return False
        sock = socket.socket(fileno=descriptor)
    except OSError:
        return False
    try:
        name = sock.getsockname()
        if not isinstance(name, tuple) or name[1] not in ports:
            return False
        if sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            return False
        info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO_BYTES)
    except OSError:
        return False
    finally:
        sock.detach()
    if len(info) < _INFO_BYTES:
        return False
    (last_ms,) = struct.unpack_from("=I", info, _LAST_RECEIVED)
    (received,) = struct.unpack_from("=Q", info, _BYTES_RECEIVED)
    return bool(received < _MIN_REQUEST_BYTES and last_ms >= timeout_ms)
