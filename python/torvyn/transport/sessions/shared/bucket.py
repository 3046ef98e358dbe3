"""A key-value bucket at the broker: entries with revisions, of which only one writer can win."""

from __future__ import annotations

from functools import partial

from torvyn._io.jetstream import Entry, Revisions, Streams
from torvyn._io.nats import BrokerConnection, Publisher
from torvyn.transport.sessions.shared.address import bucket_stream, bucket_subject
from torvyn.transport.sessions.shared.patience import append_once, insistently


class Bucket:
    """All of its methods raise `BrokerUnavailable` or `Refused`."""

    def __init__(self, broker: BrokerConnection, publisher: Publisher, name: str) -> None:
        self._broker = broker
        self._name = name
        self._entries = Revisions(broker, publisher, bucket_stream(name))
        self._streams = Streams(broker)

    async def read(self, key: str) -> Entry | None:
        """The entry of that key and its revision."""
        subject = self._subject(key)
        return await insistently(self._broker, lambda: self._entries.last(subject))

    async def write(self, key: str, data: bytes, revision: int) -> int:
        """Replaces the entry with that revision, 0 if there is none; returns its own. Raises
        `Conflict` if there is another one."""
        subject = self._subject(key)
        writing = partial(append_once, self._entries, subject, data, revision)
        return await insistently(self._broker, writing)

    async def delete(self, key: str) -> None:
        await self._streams.purge(self._entries.stream, subject=self._subject(key))

    async def keys(self) -> list[str]:
        start = self._subject("")
        subjects = await self._entries.subjects(self._subject(">"))
        return [subject.removeprefix(start) for subject in subjects]

    def _subject(self, key: str) -> str:
        return bucket_subject(self._name, key)
