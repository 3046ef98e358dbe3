"""Reads a stream in order, from a position on, and as fast as its caller makes room.

The server forgets the consumer when the connection ends; the next one continues behind the last
message. A consumer that has missed a message is made anew.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from torvyn._io.event_loop import end_task
from torvyn.jetstream.connection import BrokerConnection
from torvyn.jetstream.failures import BrokerUnavailable, Refused
from torvyn.jetstream.publisher import MESSAGE_ID
from torvyn.jetstream.requests import ask

logger = logging.getLogger("torvyn.jetstream")

EXPIRES_S: Final = 30.0
"""How long the server keeps a request for messages."""
HEARTBEATS_MISSED: Final = 3
"""A consumer that misses so many is made anew."""
LONGEST_SILENCE_S: Final = 15.0
"""The longest that a consumer may be silent: twice as long behind one that has delivered nothing,
because the server may be busy."""
MOST_MESSAGES: Final = 256
LARGE_BYTES: Final = 256 * 1024
"""The size of messages before any has come."""
RETRY_S: Final = 0.25


class StoredMessage(NamedTuple):
    sequence: int
    subject: str
    id: str
    body: bytes


class OrderedReader:
    """`receive` gets each message; `room_bytes` says how much more it wants now. After it had no
    room, call `wake`."""

    def __init__(
        self,
        broker: BrokerConnection,
        stream: str,
        subjects: Sequence[str],
        start: int,
        receive: Callable[[StoredMessage], None],
        room_bytes: Callable[[], int],
    ) -> None:
        self._broker = broker
        self._stream, self._subjects = stream, list(subjects)
        self._next = max(start, 1)
        """The first message that was not received."""
        self._receive = receive
        self._room_bytes = room_bytes
        self._size_bytes = float(LARGE_BYTES)
        self._requested = 0
        self._consumer = ""
        self._inbox = ""
        self._delivered = 0
        self._heard_s = 0.0
        self._heartbeat_s = broker.patience.heartbeat_s
        self._silence_s = HEARTBEATS_MISSED * self._heartbeat_s
        self._is_broken = False
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._broker.teardowns.append(self.wake)
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            self._broker.teardowns.remove(self.wake)
            await end_task(task)

    def wake(self) -> None:
        self._changed.set()

    async def _run(self) -> None:
        while True:
            client = await self._broker.connected()
            try:
                await self._consume(client)
            except (BrokerUnavailable, Refused, OSError) as error:
                logger.debug("the consumer of `%s` has ended: %s", self._stream, error)
            except Exception as error:
                # What the library raises when the connection ends has no common class.
                logger.debug("the consumer of `%s` has failed: %r", self._stream, error)
            await asyncio.sleep(RETRY_S if self._broker.client is client else 0)

    async def _consume(self, client: Any) -> None:
        """One consumer, until something is wrong with it."""
        inbox = self._inbox = client.new_inbox()
        subscription = await client.subscribe(inbox, cb=self._on_message)
        self._requested = self._delivered = 0
        self._is_broken = False
        try:
            await self._make_consumer()
            loop = asyncio.get_running_loop()
            self._heard_s = loop.time()
            while not self._is_broken and self._broker.client is client:
                self._changed.clear()
                await self._request_more(client, inbox)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._changed.wait(), self._heartbeat_s)
                if self._requested and loop.time() - self._heard_s > self._silence_s:
                    self._note_silence()
                    return
        finally:
            with contextlib.suppress(Exception):
                await subscription.unsubscribe()

    def _note_silence(self) -> None:
        first_s = HEARTBEATS_MISSED * self._heartbeat_s
        longer_s = min(2 * first_s, LONGEST_SILENCE_S)
        self._silence_s = first_s if self._delivered else longer_s

    async def _make_consumer(self) -> None:
        config: dict[str, Any] = {
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": self._next,
            "ack_policy": "none",
            "replay_policy": "instant",
            "inactive_threshold": int(60e9),
            "num_replicas": 1,
            "mem_storage": True,
        }
        if len(self._subjects) == 1:
            config["filter_subject"] = self._subjects[0]
        elif self._subjects:
            config["filter_subjects"] = self._subjects
        request = {"stream_name": self._stream, "config": config}
        answer = await ask(self._broker, f"CONSUMER.CREATE.{self._stream}", request)
        self._consumer = answer["name"]

    async def _request_more(self, client: Any, inbox: str) -> None:
        room_bytes = self._room_bytes()
        if room_bytes <= 0:
            return
        # A message that is larger than all of the room comes alone.
        most = min(MOST_MESSAGES, max(int(room_bytes / self._size_bytes), 1))
        if self._requested > most // 2:
            return
        count = most - self._requested
        request = {
            "batch": count,
            "expires": int(EXPIRES_S * 1e9),
            "idle_heartbeat": int(self._heartbeat_s * 1e9),
        }
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{self._stream}.{self._consumer}"
        self._requested += count
        await client.publish(subject, json.dumps(request).encode(), reply=inbox)

    async def _on_message(self, message: Any) -> None:
        if message.subject == self._inbox:
            self._on_status(message)
            return
        sequence, delivered = numbers_of(message.reply)
        if delivered != self._delivered + 1:
            # One was lost on the way, or this comes from an earlier consumer.
            self._break()
            return
        self._delivered = delivered
        self._requested = max(self._requested - 1, 0)
        self._next = sequence + 1
        self._size_bytes += (len(message.data) + 256 - self._size_bytes) / 8
        self._heard_s = asyncio.get_running_loop().time()
        headers = message.headers or {}
        identity = headers.get(MESSAGE_ID, "")
        self._receive(StoredMessage(sequence, message.subject, identity, message.data))
        if self._requested <= MOST_MESSAGES // 4:
            self._changed.set()

    def _on_status(self, message: Any) -> None:
        self._heard_s = asyncio.get_running_loop().time()
        headers = message.headers or {}
        status = headers.get("Status", "")
        if status == "100":
            return
        if status == "408" or "Nats-Pending-Messages" in headers:
            left = headers.get("Nats-Pending-Messages")
            self._requested = max(self._requested - int(left), 0) if left else 0
            self._changed.set()
            return
        # The consumer is gone.
        self._break()

    def _break(self) -> None:
        self._is_broken = True
        self._changed.set()


def numbers_of(reply: str) -> tuple[int, int]:
    """The number of the message in its stream, and how many the consumer has delivered with it."""
    parts = reply.split(".")
    # Newer servers put the domain and the account before the stream.
    at = 5 if len(parts) < 11 else 7
    return int(parts[at]), int(parts[at + 1])
