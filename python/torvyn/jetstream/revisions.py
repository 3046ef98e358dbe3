"""Messages with revisions: a writer names the last message of a subject that it knows, so that of
two writers only one wins."""

from __future__ import annotations

import base64
from typing import Final, NamedTuple

from torvyn.jetstream.connection import BrokerConnection
from torvyn.jetstream.failures import (
    NOT_FOUND,
    WRONG_REVISION,
    BrokerUnavailable,
    Conflict,
    Refused,
)
from torvyn.jetstream.publisher import Confirmed, Message, Publisher
from torvyn.jetstream.requests import ask
from torvyn.jetstream.streams import Streams

_LAST: Final = "Nats-Expected-Last-Subject-Sequence"


class Entry(NamedTuple):
    value: bytes
    revision: int


class Revisions:
    """The subjects of one stream."""

    def __init__(self, broker: BrokerConnection, publisher: Publisher, stream: str) -> None:
        self._broker, self._publisher = broker, publisher
        self.stream: Final = stream

    async def append(self, subject: str, body: bytes, last: int | None) -> int:
        """Stores a message behind the one with that number, 0 if there is none, or behind any;
        returns its own number. Raises `Conflict` if another message is there already, `Refused`, or
        `BrokerUnavailable`: then it may be stored nevertheless."""
        message = Message(subject, body, {} if last is None else {_LAST: str(last)})
        outcome = (await self._publisher.publish([message]))[0]
        if isinstance(outcome, Confirmed):
            return outcome.sequence
        if outcome.code in WRONG_REVISION:
            raise Conflict(subject)
        raise self._failure(outcome)

    async def last(self, subject: str) -> Entry | None:
        """The last message of a subject, and its number. Raises `Refused` or
        `BrokerUnavailable`."""
        request = {"last_by_subj": subject}
        try:
            answer = await ask(self._broker, f"STREAM.MSG.GET.{self.stream}", request)
        except Refused as error:
            if error.code in NOT_FOUND:
                return None
            raise self._failure(error) from error
        message = answer["message"]
        if "hdrs" in message and b"KV-Operation" in base64.b64decode(message["hdrs"]):
            # Somebody has deleted the key of a bucket.
            return None
        return Entry(base64.b64decode(message.get("data", "")), message["seq"])

    async def subjects(self, pattern: str) -> list[str]:
        """The subjects that have messages."""
        return await Streams(self._broker).subjects(self.stream, pattern)

    def _failure(self, error: Refused) -> Exception:
        if error.is_away:
            return BrokerUnavailable(f"{self._broker.address}: {error.text}")
        return error
