"""Taking a session over: exactly one server becomes its owner, and the one before writes no more.

The record is replaced first, which only one server can do. Then a message without frames follows
the last one; from then on the broker refuses whatever the server before still writes.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
from collections import deque
from dataclasses import replace
from typing import Final

from torvyn._io.nats import BrokerConnection, BrokerUnavailable, Conflict
from torvyn.transport.sessions.frame_buffer import FrameBuffer
from torvyn.transport.sessions.shared.follower import Follower
from torvyn.transport.sessions.shared.frame_log import FrameLog, FrameMessage, new_frames
from torvyn.transport.sessions.shared.records import SessionRecord
from torvyn.transport.sessions.shared.store import OwnedLog, SharedStore
from torvyn.transport.sessions.store_file import StoredSession

logger = logging.getLogger("torvyn.transport")

_SILENT_S: Final = 1.0
"""A reader that gets nothing for so long is given up, and another one is begun."""
_LATE_S: Final = 0.005
"""A message that came first arrives in a moment."""


async def take_over(
    broker: BrokerConnection, store: SharedStore, record: SessionRecord, server: str
) -> StoredSession | None:
    """Makes it a session of this server; None if its frames are damaged. Raises `Conflict` if
    another server was first, or `BrokerUnavailable`."""
    generation = record.generation + 1
    record = await store.records.put(replace(record, owner=server, generation=generation))
    log = _LogReader(broker, store.log, record)
    await log.follower.open()
    try:
        last = await _close_log(store, log, record)
    finally:
        log.follower.close()
    if log.is_damaged or log.buffer.start is None:
        if log.is_damaged:
            logger.error("session %s is damaged: frames are missing", record.id[:8])
        await store.drop(record.id)
        return None
    start = log.buffer.start
    request = record.request
    if not request:
        request = await store.prompts.get(record.id) or ""
    await store.own(OwnedLog(record, last, start.decode(), log.marks))
    rest = log.buffer.take(record.first, sys.maxsize)
    return record.to_stored(request, (start, *rest), log.is_over)


async def _close_log(store: SharedStore, log: _LogReader, record: SessionRecord) -> int:
    """Reads to the end, and puts our own message there; returns its number."""
    while True:
        await _catch_up(log.follower)
        last = log.follower.last
        if log.is_over:
            return last
        mine = FrameMessage(record.generation, log.buffer.next, ())
        try:
            return await store.log.append(record.id, mine.to_bytes(), last)
        except Conflict:
            await asyncio.sleep(_LATE_S)


async def _catch_up(follower: Follower) -> None:
    last = -1
    while not follower.is_caught_up.is_set():
        if follower.last == last:
            raise BrokerUnavailable("the frames of a session are not delivered")
        last = follower.last
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(follower.is_caught_up.wait(), _SILENT_S)


class _LogReader:
    """All frames of a session, in memory."""

    def __init__(self, broker: BrokerConnection, log: FrameLog, record: SessionRecord) -> None:
        self.follower = Follower(broker, log, record.id, self._take)
        self.buffer = FrameBuffer(sys.maxsize, record.first)
        if record.start:
            self.buffer.add(record.start.encode())
        self.marks: deque[tuple[int, int]] = deque()
        self.is_over = False
        self.is_damaged = False

    def _take(self, number: int, data: bytes) -> None:
        message = FrameMessage.parse(data)
        new = new_frames(self.buffer, message)
        if new is None:
            self.is_damaged = True
            return
        for frame in new:
            self.buffer.add(frame)
        if message.frames:
            self.marks.append((message.first, number))
        self.is_over = self.is_over or message.is_over
