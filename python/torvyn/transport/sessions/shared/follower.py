"""A follower: reads the frames of one session in order and without gaps, and knows when it has read
what was there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from torvyn._io.jetstream import OrderedReader, StoredMessage
from torvyn._io.nats import BrokerConnection
from torvyn.transport.sessions.shared.frame_log import FrameLog

_ROOM_BYTES: Final = 1 << 26
"""Frames go into a buffer with a limit of its own, so the reader never waits for room."""


class Follower:
    """`on_data` gets the number of each message in the stream, and its content."""

    def __init__(
        self,
        broker: BrokerConnection,
        log: FrameLog,
        id: str,
        on_data: Callable[[int, bytes], None],
    ) -> None:
        self._log, self._id = log, id
        self._on_data = on_data
        self.last = 0
        """The number of the last message that was read; 0: none."""
        self.is_caught_up = asyncio.Event()
        """Everything that was there has been read."""
        self._tail: int | None = None
        subjects = [log.subject(id)]
        self._reader = OrderedReader(
            broker, log.stream, subjects, 1, self._receive, lambda: _ROOM_BYTES
        )
        self._is_closed = False
        self._ending: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Raises `BrokerUnavailable` or `Refused`."""
        self._reader.start()
        tail = await self._log.tail(self._id)
        self._tail = 0 if tail is None else tail.revision
        self._check()

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._ending = asyncio.get_running_loop().create_task(self._reader.stop())

    def _receive(self, message: StoredMessage) -> None:
        if not self._is_closed:
            self.last = message.sequence
            self._on_data(message.sequence, message.body)
            self._check()

    def _check(self) -> None:
        if self._tail is not None and self.last >= self._tail:
            self.is_caught_up.set()
