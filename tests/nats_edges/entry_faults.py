"""Entries whose writes fail when a test says so: before the broker has stored them, or after."""

from __future__ import annotations

from torvyn._io.jetstream import Entries
from torvyn._io.nats import BrokerConnection, BrokerUnavailable, Publisher


class FaultyEntries(Entries):
    def __init__(self, broker: BrokerConnection, publisher: Publisher, bucket: str) -> None:
        super().__init__(broker, publisher, bucket)
        self.puts = 0
        self.fail_at: int | None = None
        """The number of the write that fails, counted from now on."""
        self.is_stored = False
        """Whether the write that fails reaches the broker: only its confirmation is lost."""

    def fail(self, at: int, *, is_stored: bool) -> None:
        self.puts, self.fail_at, self.is_stored = 0, at, is_stored

    async def put(self, key: str, value: bytes, revision: int | None = None) -> int:
        is_failing = self.puts == self.fail_at
        self.puts += 1
        if is_failing:
            self.fail_at = None
            if self.is_stored:
                await super().put(key, value, revision)
            raise BrokerUnavailable("the connection was lost")
        return await super().put(key, value, revision)
