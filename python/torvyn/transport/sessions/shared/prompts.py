"""The prompts of sessions, a message each: written once, and read when a session is taken over."""

from __future__ import annotations

from torvyn._io.jetstream import Revisions, Streams
from torvyn._io.nats import BrokerConnection, Publisher
from torvyn.transport.sessions.shared.address import StoreAddress


class SessionPrompts:
    """All of them raise `BrokerUnavailable` or `Refused`."""

    def __init__(
        self, broker: BrokerConnection, publisher: Publisher, address: StoreAddress
    ) -> None:
        self._messages = Revisions(broker, publisher, address.prompts_stream)
        self._streams = Streams(broker)
        self._address = address

    async def put(self, id: str, request: str) -> None:
        """Writes it, also a second time."""
        await self._messages.append(self._subject(id), request.encode(), None)

    async def get(self, id: str) -> str | None:
        found = await self._messages.last(self._subject(id))
        return None if found is None else found.value.decode()

    async def delete(self, id: str) -> None:
        await self._streams.purge(self._messages.stream, subject=self._subject(id))

    async def ids(self) -> list[str]:
        """The sessions that have a prompt here."""
        subjects = await self._messages.subjects(self._subject("*"))
        return [subject.rpartition(".")[2] for subject in subjects]

    def _subject(self, id: str) -> str:
        return self._address.prompt_subject(id)
