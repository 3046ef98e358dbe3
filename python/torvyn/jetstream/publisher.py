"""Stores messages, and waits until the server has confirmed each of them.

The answers to all messages come to one subscription. A `request` per message costs twice as much,
and `publish_async` of the library never ends when the server answers with an error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from torvyn.jetstream.connection import BrokerConnection
from torvyn.jetstream.failures import BrokerUnavailable, Denial, Refused
from torvyn.jetstream.requests import read_answer

MESSAGE_ID: Final = "Nats-Msg-Id"


class Message(NamedTuple):
    subject: str
    body: bytes
    headers: Mapping[str, str]


class Confirmed(NamedTuple):
    """The message is stored; before this call, if it is a duplicate."""

    sequence: int
    is_duplicate: bool


Outcome = Confirmed | Refused


class _Round:
    """The answers that one call waits for."""

    def __init__(self, subjects: Sequence[str]) -> None:
        self.subjects = subjects
        self.outcomes: list[Outcome | None] = [None] * len(subjects)
        self.missing = len(subjects)
        self.is_done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def denied_by(self, denial: Denial) -> Denial | None:
        """The denial, with the subject as it was written; None if it concerns another one."""
        if not denial.is_publish:
            return denial
        found = (each for each in self.subjects if each.lower() == denial.subject)
        subject = next(found, None)
        return None if subject is None else denial._replace(subject=subject)

    def answer(self, at: int, outcome: Outcome) -> None:
        if self.outcomes[at] is None:
            self.outcomes[at] = outcome
            self.missing -= 1
            if not self.missing and not self.is_done.done():
                self.is_done.set_result(None)


class Publisher:
    def __init__(self, broker: BrokerConnection) -> None:
        self._broker = broker
        self._inbox = ""
        self._number = 0
        self._rounds: dict[str, _Round] = {}
        broker.setups.append(self._subscribe)
        broker.teardowns.append(self._fail_rounds)
        broker.on_denial.add(self._on_denial)

    async def _subscribe(self, client: Any) -> None:
        self._inbox = client.new_inbox()
        await client.subscribe(f"{self._inbox}.*", cb=self._on_answer)

    def _fail_rounds(self) -> None:
        for waiting in self._rounds.values():
            if not waiting.is_done.done():
                waiting.is_done.set_exception(BrokerUnavailable("the connection was lost"))
        self._rounds.clear()

    def _on_denial(self, denial: Denial) -> Denial | None:
        """A message that the server does not let pass is not answered."""
        written = None
        for waiting in self._rounds.values():
            found = waiting.denied_by(denial)
            if found is not None and not waiting.is_done.done():
                written = found
                waiting.is_done.set_exception(self._broker.denied(found))
        return written

    async def publish(
        self, messages: Sequence[Message], wait_s: float | None = None
    ) -> list[Outcome]:
        """What the server says to each message, in their order. Raises `BrokerUnavailable`: then
        some of them may be stored."""
        client = self._broker.require()
        self._number += 1
        number = str(self._number)
        waiting = self._rounds[number] = _Round([message.subject for message in messages])
        prefix = f"{self._inbox}.{number}-"
        try:
            for at, (subject, body, headers) in enumerate(messages):
                await client.publish(subject, body, reply=f"{prefix}{at}", headers=headers)
            await asyncio.wait_for(waiting.is_done, wait_s or self._broker.patience.answer_s)
        except TimeoutError:
            await self._broker.reconnect("the server does not confirm messages")
            raise BrokerUnavailable(f"{self._broker.address} confirms nothing") from None
        except (OSError, _client_errors()) as error:
            raise BrokerUnavailable(f"{self._broker.address}: {error}") from error
        finally:
            self._rounds.pop(number, None)
        return [outcome for outcome in waiting.outcomes if outcome is not None]

    async def _on_answer(self, message: Any) -> None:
        number, _, at = message.subject.rpartition(".")[2].partition("-")
        waiting = self._rounds.get(number)
        if waiting is None:
            return
        try:
            answer = read_answer(message.data)
        except Refused as error:
            waiting.answer(int(at), error)
        else:
            waiting.answer(int(at), Confirmed(answer["seq"], answer.get("duplicate", False)))


def _client_errors() -> type[Exception]:
    import nats

    found: type[Exception] = nats.errors.Error
    return found
