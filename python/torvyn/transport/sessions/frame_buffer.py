"""The last frames of one answer, for subscribers that disconnect and resume.

Frames are numbered from 0, the start frame, which is always kept. When the buffer is full, the
oldest of the other frames is dropped. Each subscriber keeps its own position and waits for more.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable


class FrameBuffer:
    """Used in one loop. `limit_bytes` applies to the frames after the start."""

    __slots__ = ("_bytes", "_frames", "_limit_bytes", "_waiters", "first", "is_over", "start")

    def __init__(self, limit_bytes: int, first: int = 1) -> None:
        self._limit_bytes = limit_bytes
        self._frames: deque[bytes] = deque()
        self._bytes = 0
        self._waiters: set[asyncio.Future[None]] = set()
        self.start: bytes | None = None
        self.first = first
        """The number of the oldest frame; those before it were dropped."""
        self.is_over = False
        """No more frames will be added."""

    @property
    def next(self) -> int:
        """The number of the next frame to be added."""
        return 0 if self.start is None else self.first + len(self._frames)

    @property
    def size_bytes(self) -> int:
        """The size of the frames after the start."""
        return self._bytes

    def bytes_from(self, seq: int) -> int:
        """The size of the frames from that number on."""
        at = max(0, seq - self.first)
        if not at:
            return self._bytes
        return sum(len(self._frames[i]) for i in range(at, len(self._frames)))

    def add(self, frame: bytes, on_drop: Callable[[int, bytes], None] | None = None) -> None:
        if self.start is None:
            self.start = frame
        else:
            self._frames.append(frame)
            self._bytes += len(frame)
            self.trim(self._limit_bytes, self.next, on_drop)
        self.wake()

    def trim(
        self, limit_bytes: int, before: int, on_drop: Callable[[int, bytes], None] | None = None
    ) -> None:
        """Drops the oldest frames above the limit, except those from `before` on and the last."""
        while self._bytes > limit_bytes and len(self._frames) > 1 and self.first < before:
            dropped = self._frames.popleft()
            self._bytes -= len(dropped)
            self.first += 1
            if on_drop is not None:
                on_drop(self.first - 1, dropped)

    def replace(self, start: bytes, first: int, frames: Iterable[bytes]) -> None:
        """Has these frames from now on; a frame never changes, so its readers continue."""
        self.start, self.first, self._frames = start, first, deque(frames)
        self._bytes = sum(map(len, self._frames))
        self.wake()

    def end(self) -> None:
        self.is_over = True
        self.wake()

    def wake(self) -> None:
        """Wakes every subscriber that waits in `changed`."""
        waiters, self._waiters = self._waiters, set()
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def changed(self) -> None:
        """Returns when a frame was added, the answer ended, or `wake` was called."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.add(waiter)
        try:
            await waiter
        finally:
            self._waiters.discard(waiter)

    def take(self, seq: int, limit_bytes: int) -> list[bytes]:
        """Frames from `seq` on, up to the limit but at least one; `seq` must not be dropped yet."""
        frames: list[bytes] = []
        size = 0
        for at in range(seq - self.first, len(self._frames)):
            frame = self._frames[at]
            if frames and size + len(frame) > limit_bytes:
                break
            frames.append(frame)
            size += len(frame)
        return frames
