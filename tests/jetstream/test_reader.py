"""Reading a stream in order, through gaps, restarts and a reader without room."""

from __future__ import annotations

import asyncio
from typing import Any

from nats_server import NatsServer
from torvyn._io.jetstream import OrderedReader
from torvyn._io.nats import Message


class Reading:
    """Reads a stream and collects the texts of its messages."""

    def __init__(self, client: Any, start: int = 1, *subjects: str) -> None:
        self.texts: list[str] = []
        self.room = 1 << 20
        self.reader = OrderedReader(
            client.broker, "S", subjects or ("s.>",), start, self._receive, lambda: self.room
        )
        self._changed = asyncio.Event()
        self.reader.start()

    def _receive(self, message: Any) -> None:
        self.texts.append(message.body.decode())
        self._changed.set()

    async def until(self, count: int) -> list[str]:
        while len(self.texts) < count:
            self._changed.clear()
            await asyncio.wait_for(self._changed.wait(), 30)
        return self.texts


async def publish(client: Any, *numbers: int, subject: str = "s.a") -> None:
    await client.publisher.publish([Message(subject, str(n).encode(), {}) for n in numbers])


def test_messages_arrive_in_order(connected: Any) -> None:
    async def work(client: Any) -> list[str]:
        await client.stream(max_per_subject=5000)
        reading = Reading(client)
        await publish(client, *range(2000))
        return await reading.until(2000)

    assert connected(work) == [str(number) for number in range(2000)]


def test_reading_begins_at_a_position(connected: Any) -> None:
    async def work(client: Any) -> list[str]:
        await client.stream()
        await publish(client, *range(10))
        return await Reading(client, 8).until(3)

    assert connected(work) == ["7", "8", "9"]


def test_only_the_chosen_subjects_are_read(connected: Any) -> None:
    async def work(client: Any) -> list[str]:
        await client.stream()
        await publish(client, 1, subject="s.a")
        await publish(client, 2, subject="s.b")
        await publish(client, 3, subject="s.c")
        return await Reading(client, 1, "s.a", "s.c").until(2)

    assert connected(work) == ["1", "3"]


def test_a_reader_without_room_gets_no_more(connected: Any) -> None:
    async def work(client: Any) -> int:
        await client.stream()
        reading = Reading(client)
        await publish(client, 0)
        await reading.until(1)
        reading.room = 0
        await publish(client, *range(1, 900))
        await asyncio.sleep(0.3)
        held = len(reading.texts)
        reading.room = 1 << 20
        reading.reader.wake()
        await reading.until(900)
        return held

    assert connected(work) < 300


def test_messages_that_are_larger_than_the_room_come_one_by_one(connected: Any) -> None:
    async def work(client: Any) -> list[str]:
        await client.stream()
        reading = Reading(client)
        reading.room = 1000
        body = b"x" * 500_000
        await client.publisher.publish([Message("s.a", body, {})] * 40)
        return await reading.until(40)

    assert [len(text) for text in connected(work)] == [500_000] * 40


def test_a_killed_server_costs_no_message_and_repeats_none(
    connected: Any, server: NatsServer
) -> None:
    async def work(client: Any) -> list[str]:
        await client.stream()
        reading = Reading(client)
        await publish(client, *range(100))
        await reading.until(100)
        server.stop()
        await asyncio.to_thread(server.start)
        await client.broker.connected()
        await publish(client, *range(100, 200))
        return await reading.until(200)

    assert connected(work) == [str(number) for number in range(200)]
