"""Lists the messages of a stream by their ids, without their bodies, and deletes some of them.

A stream can be emptied at once only as a whole or by subject: whoever wants less asks for each
message.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any, Final, NamedTuple

from torvyn.jetstream.connection import BrokerConnection
from torvyn.jetstream.failures import BrokerUnavailable, Refused
from torvyn.jetstream.publisher import MESSAGE_ID
from torvyn.jetstream.reader import numbers_of
from torvyn.jetstream.requests import ask

PAGE_MESSAGES: Final = 256
GONE: Final = (10037, 10043, 10057)
"""Error codes of the server: there is no such message any more."""


class ListedMessage(NamedTuple):
    sequence: int
    id: str


class MessageList:
    """For the loop. All methods raise `BrokerUnavailable`."""

    def __init__(self, broker: BrokerConnection, stream: str) -> None:
        self._broker, self._stream = broker, stream
        self._consumer = ""

    async def next_page(self) -> list[ListedMessage]:
        """The next messages; none after the last one."""
        import nats

        try:
            if not self._consumer:
                self._consumer = await self._make_consumer()
            return await self._read_page(self._broker.require())
        except Refused as error:
            raise BrokerUnavailable(f"{self._broker.address}: {error.text}") from error
        except (OSError, TimeoutError, nats.errors.Error) as error:
            raise BrokerUnavailable(f"{self._broker.address}: {error}") from error

    async def _make_consumer(self) -> str:
        config = {
            "deliver_policy": "all",
            "ack_policy": "none",
            "headers_only": True,
            "inactive_threshold": int(60e9),
            "num_replicas": 1,
            "mem_storage": True,
        }
        request = {"stream_name": self._stream, "config": config}
        answer = await ask(self._broker, f"CONSUMER.CREATE.{self._stream}", request)
        return str(answer["name"])

    async def _read_page(self, client: Any) -> list[ListedMessage]:
        received: asyncio.Queue[Any] = asyncio.Queue()
        page: list[ListedMessage] = []
        inbox = client.new_inbox()
        subscription = await client.subscribe(inbox, cb=received.put)
        try:
            request = json.dumps({"batch": PAGE_MESSAGES, "no_wait": True}).encode()
            subject = f"$JS.API.CONSUMER.MSG.NEXT.{self._stream}.{self._consumer}"
            await client.publish(subject, request, reply=inbox)
            while len(page) < PAGE_MESSAGES:
                message = await asyncio.wait_for(received.get(), self._broker.patience.answer_s)
                if message.subject == inbox:
                    break  # A status: there are no more.
                identity = (message.headers or {}).get(MESSAGE_ID, "")
                page.append(ListedMessage(numbers_of(message.reply)[0], identity))
        finally:
            await subscription.unsubscribe()
        return page

    async def delete(self, sequences: list[int]) -> None:
        """Messages that are gone already do not matter."""
        await asyncio.gather(*(self._delete(sequence) for sequence in sequences))

    async def _delete(self, sequence: int) -> None:
        request = {"seq": sequence, "no_erase": True}
        try:
            await ask(self._broker, f"STREAM.MSG.DELETE.{self._stream}", request)
        except Refused as error:
            if error.code not in GONE:
                raise BrokerUnavailable(f"{self._broker.address}: {error.text}") from error
