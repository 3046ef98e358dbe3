"""The sessions that this server generates, kept at the broker.

A frame is sent to a client only after the broker has confirmed it. While the broker is away answers
pause; those that pause for too long end here, and another server may continue them.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol, TypeVar

from torvyn._io.nats import BrokerConnection, BrokerUnavailable, Conflict, Publisher, Refused
from torvyn.errors import TorvynError
from torvyn.transport.rejection import prompt_too_large
from torvyn.transport.sessions.shared.address import StoreAddress
from torvyn.transport.sessions.shared.frame_log import FrameLog, FrameMessage, parts_of
from torvyn.transport.sessions.shared.patience import broker_away, patiently
from torvyn.transport.sessions.shared.prompts import SessionPrompts
from torvyn.transport.sessions.shared.records import SessionRecord, SessionRecords
from torvyn.transport.sessions.store import SessionLost, store_failed, taken_over
from torvyn.transport.sessions.store_file import StoredSession

logger = logging.getLogger("torvyn.transport")

T = TypeVar("T")

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
    unconfirmed: deque[FrameMessage] = field(default_factory=deque)
    """What was not confirmed yet, in order. The first may be stored: its writer was cancelled."""


class Shares(Protocol):
    """What each tenant may store."""

    async def take(self, tenant: str, size_bytes: int, *, is_stored: bool = False) -> None: ...

    def give_back(self, tenant: str, size_bytes: int) -> None: ...


class SharedStore:
    """Used in one loop, by the sessions of one server."""

    def __init__(self, broker: BrokerConnection, address: StoreAddress, server: str) -> None:
        self._broker = broker
        self._server = server
        publisher = Publisher(broker)
        self.records = SessionRecords(broker, publisher, address)
        self.prompts = SessionPrompts(broker, publisher, address)
        self.log = FrameLog(broker, publisher, address)
        self._max_payload_bytes = _SMALLEST_PAYLOAD_BYTES
        broker.setups.append(self._on_connection)
        self.owned: dict[str, OwnedLog] = {}
        self.shares: Shares | None = None
        """None: there are no tenants."""
        self.on_lost: Callable[[str, SessionLost], None] = lambda *lost: None
        """Called when a session turns out to be another server's."""

    async def _on_connection(self, client: Any) -> None:
        self._max_payload_bytes = client.max_payload

    async def begin(self, stored: StoredSession) -> None:
        record = SessionRecord.of(stored, self._server)
        limit_bytes = self._max_payload_bytes - _HEAD_BYTES
        if record.request_bytes > limit_bytes:
            raise prompt_too_large(record.request_bytes, limit_bytes, "`max_payload` of the broker")
        await self._take_room(record)
        try:
            if record.request_bytes:
                # Together: nobody looks for the session before its client has its id.
                putting = self._put_prompt(record.id, stored.request)
                _, record = await asyncio.gather(putting, self._put(record, BEGIN_S))
            else:
                record = await self._put(record, BEGIN_S)
        except BaseException:
            self._give_room_back(record)
            raise
        self.owned[stored.id] = OwnedLog(record)

    async def own(self, owned: OwnedLog) -> None:
        """Takes the session of another server."""
        await self._take_room(owned.record, is_stored=True)
        self.owned[owned.record.id] = owned

    def disown(self, id: str) -> None:
        """Leaves a session: its record expires if no other server continues it."""
        owned = self.owned.pop(id, None)
        if owned is not None:
            self._give_room_back(owned.record)

    async def _take_room(self, record: SessionRecord, *, is_stored: bool = False) -> None:
        if self.shares is not None:
            await self.shares.take(record.tenant, record.room_bytes, is_stored=is_stored)

    def _give_room_back(self, record: SessionRecord) -> None:
        if self.shares is not None:
            self.shares.give_back(record.tenant, record.room_bytes)

    async def _put_prompt(self, id: str, request: str) -> None:
        async def put() -> None:
            await self.prompts.put(id, request)

        await self._refusable(put, BEGIN_S)

    async def append(self, id: str, seq: int, frames: list[bytes], is_over: bool) -> None:
        """Adds consecutive frames; the first has the number `seq`. What an earlier call left when
        it was cancelled is stored before."""
        owned = self.owned.get(id)
        if owned is None:
            return
        if not seq:
            owned.start = frames[0].decode()
        parts = parts_of(frames, self._max_payload_bytes - _HEAD_BYTES)
        for at, part in enumerate(parts, 1):
            is_last = is_over and at == len(parts)
            message = FrameMessage(owned.record.generation, seq, tuple(part), is_last)
            owned.unconfirmed.append(message)
            seq += len(part)
        while owned.unconfirmed:
            message = owned.unconfirmed[0]
            owned.last = await self._append(owned, message.to_bytes())
            owned.marks.append((message.first, owned.last))
            owned.unconfirmed.popleft()

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

    async def stop(self, id: str, kind: str) -> None:
        """Whichever server continues the session ends it."""
        owned = self.owned.get(id)
        if owned is not None:
            await self._replace(owned, BEGIN_S, stopped=kind)

    async def drop(self, *ids: str) -> None:
        for id in ids:
            self.disown(id)
            try:
                await self.records.delete(id)
                await asyncio.gather(self.log.delete(id), self.prompts.delete(id))
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
                raise taken_over() from None

        return await self._refusable(append, PAUSE_S)

    async def _replace(self, owned: OwnedLog, wait_s: float = PAUSE_S, **changes: Any) -> None:
        async with owned.lock:
            owned.record = await self._put(replace(owned.record, **changes), wait_s)

    async def _put(self, record: SessionRecord, wait_s: float) -> SessionRecord:
        async def put(record: SessionRecord = record) -> SessionRecord:
            try:
                return await self.records.put(record)
            except Conflict:
                now = await self.records.get(record.id)
            if now is None:
                if not record.revision or record.id not in self.owned:
                    raise taken_over()
                # It expired because it could not be renewed, and nobody has taken it over.
                return await put(replace(record, revision=0))
            if (now.owner, now.generation) != (self._server, record.generation):
                raise taken_over()
            # This server wrote it, and the writer was cancelled.
            return await put(replace(record, revision=now.revision))

        return await self._refusable(put, wait_s)

    async def _refusable(self, work: Callable[[], Awaitable[T]], wait_s: float) -> T:
        try:
            return await patiently(self._broker, work, wait_s)
        except Refused as error:
            raise store_failed(str(error), "see the limits of the broker") from error
