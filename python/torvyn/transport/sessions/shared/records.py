"""The records of sessions: one entry per session in a key-value bucket.

It says whose session it is and which server generates the answer; what was asked is in `prompts`,
unless it is short. An entry is
replaced only if nobody else has replaced it meanwhile, so exactly one server takes a session over.
The broker deletes an entry that its server no longer renews.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import Final

from torvyn._io.nats import BrokerConnection, Publisher
from torvyn.transport.sessions.shared.address import StoreAddress
from torvyn.transport.sessions.shared.bucket import Bucket
from torvyn.transport.sessions.store_file import StoredSession

_SHORT_BYTES: Final = 2048
"""A prompt that is no longer stays in the record."""
_RECORD_BYTES: Final = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRecord:
    id: str
    tenant: str
    caller: str
    flow: str
    epoch: str
    owner: str
    """The server that generates it."""
    generation: int = 1
    """How many servers have generated it."""
    first: int = 1
    request: str = ""
    """What was asked; empty: it is among the prompts."""
    request_bytes: int = 0
    """The size of what was asked, if it is there."""
    stopped: str = ""
    """`stop` or `cancel`, if a client has asked for it."""
    dropped: str = "{}"
    start: str = ""
    """The start frame, once it is no longer among the messages."""
    revision: int = 0
    """Of the entry; not stored in it."""

    @classmethod
    def of(cls, stored: StoredSession, owner: str) -> SessionRecord:
        size_bytes = len(stored.request.encode())
        is_short = size_bytes <= _SHORT_BYTES
        return cls(
            id=stored.id,
            tenant=stored.tenant,
            caller=stored.caller,
            flow=stored.flow,
            epoch=stored.epoch,
            request=stored.request if is_short else "",
            request_bytes=0 if is_short else size_bytes,
            owner=owner,
        )

    @property
    def room_bytes(self) -> int:
        """What it takes of its tenant's share: its prompt, and room for the record."""
        return self.request_bytes + _RECORD_BYTES

    def to_stored(self, request: str, frames: tuple[bytes, ...], is_over: bool) -> StoredSession:
        return StoredSession(
            id=self.id,
            tenant=self.tenant,
            caller=self.caller,
            flow=self.flow,
            epoch=self.epoch,
            request=request,
            first=self.first,
            dropped=self.dropped,
            is_over=is_over,
            stopped=self.stopped,
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
        self._bucket = Bucket(broker, publisher, address.records_bucket)

    async def get(self, id: str) -> SessionRecord | None:
        found = await self._bucket.read(id)
        return None if found is None else SessionRecord(**json.loads(found[0]), revision=found[1])

    async def put(self, record: SessionRecord) -> SessionRecord:
        """Writes it, in place of the revision that it has. Raises `Conflict`."""
        revision = await self._bucket.write(record.id, record.to_bytes(), record.revision)
        return replace(record, revision=revision)

    async def delete(self, id: str) -> None:
        await self._bucket.delete(id)

    async def ids(self) -> list[str]:
        """The sessions that have a record."""
        return await self._bucket.keys()
