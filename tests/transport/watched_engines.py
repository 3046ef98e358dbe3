"""Engines that note when their reader leaves, and what the kernel knows of a connection."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
import time
from collections.abc import AsyncIterator

from torvyn.engine import ChoiceStep, Engine, Request, Step

CEILING_S = 5.0
"""Less than any timer that could notice it later: those look every 7.5 s at most."""
"""Ten times what must hold, for machines that are busy with other things."""


class Watched(Engine):
    """Says a token every so often, and notes when it was left."""

    name = "watched"

    def __init__(self, pause_s: float = 0.001, token: str = "x") -> None:
        super().__init__()
        self._pause_s = pause_s
        self._token = token
        self.was_left = threading.Event()
        self.has_begun = threading.Event()
        self.left_s = 0.0
        self.made = 0

    async def steps(self, request: Request) -> AsyncIterator[Step]:
        self.has_begun.set()
        try:
            while True:
                await asyncio.sleep(self._pause_s)
                self.made += 1
                yield Step((ChoiceStep(0, text=self._token),))
        finally:
            self.left_s = time.perf_counter()
            self.was_left.set()


class Numbering(Engine):
    """Counts, a kilobyte a number, as fast as it is read; waits where the test wants it to."""

    name = "numbering"

    async def steps(self, request: Request) -> AsyncIterator[Step]:
        for number in range(100_000):
            await asyncio.sleep(0)
            yield Step((ChoiceStep(0, text=f"<{number}>".ljust(1000)),))


def peer_of(port: int) -> dict[str, int]:
    """The options of the server's end of a connection; it is in this process too."""
    for entry in os.listdir("/proc/self/fd"):
        try:
            found = socket.socket(fileno=os.dup(int(entry)))
        except OSError:
            continue
        with found:
            try:
                if found.getpeername()[1] == port:
                    tcp = socket.IPPROTO_TCP
                    return {
                        "sndbuf": found.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF),
                        "lowat": found.getsockopt(tcp, socket.TCP_NOTSENT_LOWAT),
                        "user_timeout": found.getsockopt(tcp, socket.TCP_USER_TIMEOUT),
                    }
            except (OSError, IndexError):
                continue
    raise AssertionError("no such connection")
