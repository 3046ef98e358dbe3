"""Silent connections: who connects and asks nothing is sent away, so that others find a place.

The server below waits without end for the first bytes of a connection, and holds so many
connections and no more: a few thousand that say nothing would lock everybody out. The kernel knows
what each has sent. A few are looked at, at a time; nothing here sees what is sent.
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

PATIENCE_MS: Final = 10_000
"""As long as the head of a request may take."""
_LEAST_BYTES: Final = 24
"""What every request is longer than, and the preface of HTTP/2 as long as."""
_PAUSE_S: Final = 0.5
_AT_A_TIME: Final = 256
_LAST_RECEIVED: Final = 52
_BYTES_RECEIVED: Final = 128
_INFO_BYTES: Final = 136
"""Of `struct tcp_info`: milliseconds since something came, how much came, and all up to there."""


class IdleReaper:
    """`start` on a loop; it looks at the connections to these ports until `stop`."""

    def __init__(self, *ports: int, patience_ms: int = PATIENCE_MS) -> None:
        self._ports = frozenset(ports)
        self._patience_ms = patience_ms
        self._unseen: Iterator[int] = iter(())
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        if sys.platform == "linux":
            self._timer = asyncio.get_running_loop().call_later(_PAUSE_S, self._look)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        seen = 0
        for seen, number in enumerate(self._unseen, 1):
            if _is_silent(number, self._ports, self._patience_ms):
                self._send_away(number)
            if seen == _AT_A_TIME:
                break
        if seen < _AT_A_TIME:
            with contextlib.suppress(OSError):
                self._unseen = map(int, os.listdir("/proc/self/fd"))
        self.start()

    def _send_away(self, number: int) -> None:
        # The number may be another connection's by now. A copy stays what it is while it is asked.
        with contextlib.suppress(OSError):
            copy = os.dup(number)
            try:
                if _is_silent(copy, self._ports, self._patience_ms):
                    held = socket.socket(fileno=copy)
                    with contextlib.suppress(OSError):
                        held.shutdown(socket.SHUT_RDWR)
                    held.detach()
            finally:
                os.close(copy)


def _is_silent(number: int, ports: Collection[int], patience_ms: int) -> bool:
    """Whether that descriptor is a connection to one of the ports that has asked for nothing."""
    try:
        if not stat.S_ISSOCK(os.fstat(number).st_mode):
            return False
        held = socket.socket(fileno=number)
    except OSError:
        return False
    try:
        name = held.getsockname()
        if not isinstance(name, tuple) or name[1] not in ports:
            return False
        if held.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            return False
        info = held.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO_BYTES)
    except OSError:
        return False
    finally:
        held.detach()
    if len(info) < _INFO_BYTES:
        return False
    (last_ms,) = struct.unpack_from("=I", info, _LAST_RECEIVED)
    (received,) = struct.unpack_from("=Q", info, _BYTES_RECEIVED)
    return bool(received < _LEAST_BYTES and last_ms >= patience_ms)
