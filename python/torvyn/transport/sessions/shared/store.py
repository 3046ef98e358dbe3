"""The sessions that this server generates, kept at the broker.

A frame is sent to a client only after the broker has confirmed it. While the broker is away answers
pause; those that pause for too long end here, and another server may continue them.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final

from torvyn.errors import TorvynError
from torvyn.jetstream import BrokerConnection, BrokerUnavailable, Conflict, Publisher, Refused
from torvyn.transport.sessions.shared.address import StoreAddress
from torvyn.transport.sessions.shared.frame_log import FrameLog, FrameMessage, parts_of
from torvyn.transport.sessions.shared.patience import broker_away, patiently
from torvyn.transport.sessions.shared.records import SessionRecord, SessionRecords
from torvyn.transport.sessions.store import SessionLost, store_failed
from torvyn.transport.sessions.store_file import StoredSession

logger = logging.getLogger("torvyn.transport")

PAUSE_S: Final = 30.0
"""How long an answer waits for the broker."""
BEGIN_S: Final = 2.0
"""How long a request waits for the broker."""
_FORGET_MESSAGES: Final = 64
"""So many messages are deleted together."""
_SMALLEST_PAYLOAD_BYTES: Final = 64 * 1024
"""What a message may contain before the broker has said more."""
_HEAD_BYTES: Final = 1024
"""Room for what a message contains besides frames."""


@dataclass(slots=True)
class OwnedLog:
    """A session of this server, and what it wrote last."""

    record: SessionRecord
    last: int = 0
    """The number of the last message."""
    start: str = ""
    marks: deque[tuple[int, int]] = field(default_factory=deque)
    """The first frame and the number of each message."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while the record is replaced."""


class SharedStore:
    """Used in one loop, by the sessions of one server."""

    def __init__(self, broker: BrokerConnection, address: StoreAddress, server: str) -> None:
        self._broker = broker
        self._server = server
        publisher = Publisher(broker)
        self.records = SessionRecords(broker, publisher, address)
        self.log = FrameLog(broker, publisher, address)
        self._max_payload_bytes = _SMALLEST_PAYLOAD_BYTES
        broker.setups.append(self._on_connection)
        self.owned: dict[str, OwnedLog] = {}
        self.on_lost: Callable[[str, SessionLost], None] = lambda *lost: None
        """Called when a session turns out to be another server's."""

    async def _on_connection(self, client: Any) -> None:
        self._max_payload_bytes = client.max_payload

    async def begin(self, stored: StoredSession) -> None:
        record = SessionRecord.of(stored, self._server)
        limit_bytes = self._max_payload_bytes - _HEAD_BYTES
        if (size := len(record.to_bytes())) > limit_bytes:
            why = f"the request takes {size:,} bytes, and the broker accepts {limit_bytes:,}"
            raise store_failed(why, "raise `max_payload` of the broker, or send less")
        self.owned[stored.id] = OwnedLog(await self._put(record, BEGIN_S))

    async def append(self, id: str, seq: int, frames: list[bytes], is_over: bool) -> None:
        """Adds consecutive frames; the first has the number `seq`."""
        owned = self.owned.get(id)
        if owned is None:
            return
        if not seq:
            owned.start = frames[0].decode()
        parts = parts_of(frames, self._max_payload_bytes - _HEAD_BYTES)
        for at, part in enumerate(parts, 1):
            is_last = is_over and at == len(parts)
            message = FrameMessage(owned.record.generation, seq, tuple(part), is_last)
            owned.last = await self._append(owned, message.to_bytes())
            owned.marks.append((seq, owned.last))
            seq += len(part)

    async def forget_before(self, id: str, seq: int, dropped: str) -> None:
        """Deletes the frames before that one, except the start; many of them together."""
        owned = self.owned.get(id)
        if owned is None or len(owned.marks) <= _FORGET_MESSAGES:
            return
        if owned.marks[_FORGET_MESSAGES][0] > seq:
            return
        while len(owned.marks) > 1 and owned.marks[1][0] <= seq:
            owned.marks.popleft()
        await self._replace(owned, first=seq, dropped=dropped, start=owned.start)
        try:
            await self.log.forget_before(id, owned.marks[0][1])
        except (BrokerUnavailable, Refused) as error:
            logger.warning("sessions: frames are kept for longer: %s", error)

    async def drop(self, *ids: str) -> None:
        for id in ids:
            self.owned.pop(id, None)
            try:
                await self.records.delete(id)
                await self.log.delete(id)
            except (BrokerUnavailable, Refused):
                # The broker deletes the record when nobody renews it.
                logger.warning("sessions: %s is deleted later: the broker is away", id[:8])

    async def renew(self) -> None:
        """Keeps the records of this server's sessions from being deleted. Raises if some were not
        renewed: the broker is away or refuses."""
        refused: TorvynError | None = None
        for id, owned in list(self.owned.items()):
            if self.owned.get(id) is not owned:
                continue  # it was dropped meanwhile
            try:
                await self._replace(owned)
            except SessionLost as lost:
                if lost.code == broker_away().code:
                    raise
                self.on_lost(id, lost)
            except TorvynError as error:
                refused = error
        if refused is not None:
            raise refused

    async def _append(self, owned: OwnedLog, data: bytes) -> int:
        id = owned.record.id

        async def append() -> int:
            try:
                return await self.log.append(id, data, owned.last)
            except Conflict:
                # Its confirmation was lost, or another server has written.
                tail = await self.log.tail(id)
                if tail is None or tail[0] != data:
                    raise taken_over() from None
                return tail[1]

        try:
            return await patiently(self._broker, append, PAUSE_S)
        except Refused as error:
            raise store_failed(str(error), "see the limits of the broker") from error

    async def _replace(self, owned: OwnedLog, **changes: Any) -> None:
        async with owned.lock:
            owned.record = await self._put(replace(owned.record, **changes), PAUSE_S)

    async def _put(self, record: SessionRecord, wait_s: float) -> SessionRecord:
        async def put(record: SessionRecord = record) -> SessionRecord:
            try:
                return await self.records.put(record)
            except Conflict:
                now = await self.records.get(record.id)
                if now is not None and replace(now, revision=record.revision) == record:
                    return now
                if now is not None or not record.revision or record.id not in self.owned:
                    raise taken_over() from None
            # It expired because it could not be renewed, and nobody has taken it over.
            return await put(replace(record, revision=0))

        try:
            return await patiently(self._broker, put, wait_s)
        except Refused as error:
            raise store_failed(str(error), "see the limits of the broker") from error


def taken_over() -> SessionLost:
    return SessionLost(
        "another server continues this stream",
        code="session.taken-over",
        hint="resume it",
    )
