"""The records of sessions: one entry per session in a key-value bucket.

It says whose session it is, what was asked, and which server generates the answer. An entry is
replaced only if nobody else has replaced it meanwhile, so exactly one server takes a session over.
The broker deletes an entry that its server no longer renews.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace

from torvyn.jetstream import BrokerConnection, Entry, Publisher, Revisions, Streams
from torvyn.transport.sessions.shared.address import StoreAddress
from torvyn.transport.sessions.store_file import StoredSession


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRecord:
    id: str
    tenant: str
    caller: str
    flow: str
    epoch: str
    request: str
    owner: str
    """The server that generates it."""
    generation: int = 1
    """How many servers have generated it."""
    first: int = 1
    dropped: str = "{}"
    start: str = ""
    """The start frame, once it is no longer among the messages."""
    revision: int = 0
    """Of the entry; not stored in it."""

    @classmethod
    def of(cls, stored: StoredSession, owner: str) -> SessionRecord:
        return cls(
            id=stored.id,
            tenant=stored.tenant,
            caller=stored.caller,
            flow=stored.flow,
            epoch=stored.epoch,
            request=stored.request,
            owner=owner,
        )

    def to_stored(self, frames: tuple[bytes, ...], is_over: bool) -> StoredSession:
        return StoredSession(
            id=self.id,
            tenant=self.tenant,
            caller=self.caller,
            flow=self.flow,
            epoch=self.epoch,
            request=self.request,
            first=self.first,
            dropped=self.dropped,
            is_over=is_over,
            frames=frames,
        )

    def to_bytes(self) -> bytes:
        fields = asdict(self)
        del fields["revision"]
        return json.dumps(fields).encode()


class SessionRecords:
    """All of them raise `BrokerUnavailable` or `Refused`."""

    def __init__(
        self, broker: BrokerConnection, publisher: Publisher, address: StoreAddress
    ) -> None:
        self._entries = Revisions(broker, publisher, address.records_stream)
        self._streams = Streams(broker)
        self._address = address

    async def get(self, id: str) -> SessionRecord | None:
        found = await self.read(id)
        return None if found is None else SessionRecord(**json.loads(found[0]), revision=found[1])

    async def read(self, key: str) -> Entry | None:
        """The entry of that key and its revision."""
        return await self._entries.last(self._address.record_subject(key))

    async def put(self, record: SessionRecord) -> SessionRecord:
        """Writes it, in place of the revision that it has. Raises `Conflict`."""
        revision = await self.write(record.id, record.to_bytes(), record.revision)
        return replace(record, revision=revision)

    async def write(self, key: str, data: bytes, revision: int) -> int:
        return await self._entries.append(self._address.record_subject(key), data, revision)

    async def delete(self, id: str) -> None:
        subject = self._address.record_subject(id)
        await self._streams.purge(self._entries.stream, subject=subject)
