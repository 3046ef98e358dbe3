"""The last frames of one answer, for subscribers that disconnect and resume.

Frames are numbered from 0, the start frame, which is always kept. When the buffer is full, the
oldest of the other frames is dropped. Each subscriber keeps its own position and waits for more.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable


class FrameBuffer:
    """In one loop. `limit_bytes` holds for the frames after the start."""

    __slots__ = ("_bytes", "_frames", "_limit_bytes", "_waiting", "first", "is_over", "start")

    def __init__(self, limit_bytes: int, first: int = 1) -> None:
        self._limit_bytes = limit_bytes
        self._frames: deque[bytes] = deque()
        self._bytes = 0
        self._waiting: set[asyncio.Future[None]] = set()
        self.start: bytes | None = None
        self.first = first
        """The oldest frame that is there; those before it have gone."""
        self.is_over = False
        """Nothing will be added any more."""

    @property
    def next(self) -> int:
        """The number of the frame that comes next."""
        return 0 if self.start is None else self.first + len(self._frames)

    def bytes_from(self, seq: int) -> int:
        """How much lies there from that frame on."""
        at = max(0, seq - self.first)
        if not at:
            return self._bytes
        return sum(len(self._frames[i]) for i in range(at, len(self._frames)))

    def add(self, frame: bytes, on_gone: Callable[[int, bytes], None] | None = None) -> None:
        if self.start is None:
            self.start = frame
        else:
            self._frames.append(frame)
            self._bytes += len(frame)
            while self._bytes > self._limit_bytes and len(self._frames) > 1:
                gone = self._frames.popleft()
                self._bytes -= len(gone)
                self.first += 1
                if on_gone is not None:
                    on_gone(self.first - 1, gone)
        self.wake()

    def end(self) -> None:
        self.is_over = True
        self.wake()

    def wake(self) -> None:
        """Lets everybody look again."""
        waiting, self._waiting = self._waiting, set()
        for one in waiting:
            if not one.done():
                one.set_result(None)

    async def changed(self) -> None:
        """Returns when something was added, or it is over."""
        one = asyncio.get_running_loop().create_future()
        self._waiting.add(one)
        try:
            await one
        finally:
            self._waiting.discard(one)

    def take(self, seq: int, limit_bytes: int) -> list[bytes]:
        """Frames from that number on, which has not gone: at least one if there is any."""
        taken: list[bytes] = []
        size = 0
        for place in range(seq - self.first, len(self._frames)):
            frame = self._frames[place]
            if taken and size + len(frame) > limit_bytes:
                break
            taken.append(frame)
            size += len(frame)
        return taken
