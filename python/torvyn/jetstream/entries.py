"""Values by key, each with a revision: a writer names the revision that it knows, so that of two
writers only one wins. They are those of a NATS key-value bucket, which `nats kv` shows."""

from __future__ import annotations

from typing import Final

from torvyn.jetstream.connection import BrokerConnection
from torvyn.jetstream.failures import BrokerUnavailable, Refused
from torvyn.jetstream.publisher import Publisher
from torvyn.jetstream.revisions import Entry, Revisions
from torvyn.jetstream.streams import Streams, StreamSpec, StreamState


class Entries:
    """A bucket. `open` makes it if it is new."""

    def __init__(self, broker: BrokerConnection, publisher: Publisher, bucket: str) -> None:
        self._broker = broker
        self._bucket = bucket
        self.stream: Final = f"KV_{bucket}"
        self._revisions = Revisions(broker, publisher, self.stream)

    async def open(
        self, replicas: int = 1, max_age_s: float | None = None, description: str = ""
    ) -> StreamState:
        """Its description is that with which it was made."""
        spec = StreamSpec(
            name=self.stream,
            subjects=(f"$KV.{self._bucket}.>",),
            max_per_subject=1,
            max_age_s=max_age_s,
            replicas=replicas,
            description=description,
            is_bucket=True,
        )
        return await Streams(self._broker).ensure(spec)

    async def get(self, key: str) -> Entry | None:
        """The entry; None if there is none."""
        try:
            return await self._revisions.last(f"$KV.{self._bucket}.{key}")
        except Refused as error:
            raise self._unavailable(error) from error

    async def put(self, key: str, value: bytes, revision: int | None = None) -> int:
        """Writes a value, and returns its revision. With `revision`, only if that is still the
        last one (0: none); raises `Conflict` otherwise."""
        try:
            return await self._revisions.append(f"$KV.{self._bucket}.{key}", value, revision)
        except Refused as error:
            raise self._unavailable(error) from error

    async def delete(self, key: str) -> None:
        """Removes a key and what it held."""
        subject = f"$KV.{self._bucket}.{key}"
        await Streams(self._broker).purge(self.stream, subject=subject)

    async def delete_before(self, keys: str, revision: int) -> None:
        """Removes keys (`*` and `>` match any) that were last written before a revision."""
        subject = f"$KV.{self._bucket}.{keys}"
        await Streams(self._broker).purge(self.stream, below=revision, subject=subject)

    async def keys(self, pattern: str) -> list[str]:
        """The keys that match."""
        prefix = f"$KV.{self._bucket}."
        try:
            found = await self._revisions.subjects(prefix + pattern)
        except Refused as error:
            raise self._unavailable(error) from error
        return [subject.removeprefix(prefix) for subject in found]

    def _unavailable(self, error: Refused) -> BrokerUnavailable:
        return BrokerUnavailable(f"{self._broker.address}: {error.text}", is_full=error.is_full)
