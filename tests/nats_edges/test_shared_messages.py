"""Elements of many keys leave in one message, and each key has a limit of its own behind that."""

from __future__ import annotations

import asyncio
import json

import nats
from keyed_flow import Numbers
from nats_parts import Collected, part, wait_until

import torvyn
from nats_server import NatsServer

STREAM = "TV_t_main_read-output-pass"
KEYS = [f"k{number}" for number in range(7)]


class Pass(torvyn.Processor):
    def process(self, element: torvyn.Element) -> str:
        return element.text


def messages_by_key(url: str) -> dict[str, int]:
    """How many messages wait per key; `_` for those of many keys."""

    async def ask() -> dict[str, int]:
        client = await nats.connect(url)
        try:
            info = await client.jetstream().stream_info(STREAM, subjects_filter=">")
        finally:
            await client.close()
        subjects = info.state.subjects or {}
        return {subject.rpartition(".")[2]: count for subject, count in subjects.items()}

    return asyncio.run(ask())


class InSteps(Numbers):
    """Few at a time, so that they are several messages."""

    def pull(self) -> object:
        if self.next % 14 == 13:
            self.next += 1
            return torvyn.PENDING.after(0.002)
        return super().pull()


def test_a_key_has_room_when_the_shared_messages_are_full(server: NatsServer) -> None:
    flow = torvyn.Flow(name="main")
    flow.add("read", InSteps(700, is_ending=False)).add("pass", Pass, key="key")
    flow.add("write", sink := Collected()).connect("pass", "write")
    flow.connect("read", "pass", carrier="nats", max_waiting=2)
    writer = part(flow, "read").start()
    wait_until(lambda: messages_by_key(server.url) == dict.fromkeys(["_", *KEYS], 2))
    reader = part(flow, "pass").start()
    wait_until(lambda: len(sink.texts) == 650)
    for each in (writer, reader):
        each.drain()
        assert each.wait(30)
    read = [json.loads(text) for text in sink.texts]
    for key in KEYS:
        numbers = [each["number"] for each in read if each["key"] == key]
        assert numbers == sorted(set(numbers))
