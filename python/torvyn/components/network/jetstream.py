"""Reads from NATS JetStream streams, through a durable consumer, and writes to them.

A reader asks for as many messages as there is room for, so a slow flow slows the server down. What
an earlier process received and did not settle is asked for first, so the order stays the stream's.
A writer waits for the confirmation of each message of a batch.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import deque
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final, NamedTuple

from torvyn._io.event_loop import keep_task
from torvyn._io.restart import keep_task_running

REQUEST_MESSAGES: Final = 256
EXPIRES_S: Final = 30.0
"""How long the server keeps a request."""
GRACE_S: Final = 5.0
STREAM_FULL: Final = 10077
NO_STREAM: Final = 503
FOR_GOOD: Final = frozenset({10054, 10097})
"""A message that is larger than its stream takes, or whose headers are."""


class JetStreamReader:
    """All methods but `room` and `settle` are for the loop."""

    def __init__(
        self,
        stream: str,
        durable: str,
        subject: str,
        capacity: int,
        ack_wait_s: float,
        receive: Callable[[Any], None],
        reconnect: Callable[[str], Coroutine[Any, Any, None]],
    ) -> None:
        """`reconnect` gives up the connection, so that there is a new one."""
        self._stream, self._durable, self._subject = stream, durable, subject
        self._capacity = capacity
        self._ack_wait_s = ack_wait_s
        self._receive = receive
        self._reconnect = reconnect
        self._in_flow: dict[int, None] = {}
        """The stream's numbers of what was received and is not settled."""
        self._requested = 0
        self._has_changed = asyncio.Event()
        self._pump: asyncio.Task[None] | None = None
        self._is_first = True

    async def start(self, client: Any) -> None:
        """Subscribes. Called for each new connection."""
        self.stop()
        await self._prepare_consumer(client.jetstream())
        self._is_first = False
        inbox = client.new_inbox()
        await client.subscribe(inbox, cb=self._on_message)
        self._requested = 0
        work = keep_task_running(partial(self._run, client, inbox), self._fail)
        self._pump = asyncio.get_running_loop().create_task(work)

    def stop(self) -> None:
        if self._pump is not None:
            self._pump.cancel()

    def _fail(self, reason: str) -> None:
        """What is requested is not known any more."""
        keep_task(asyncio.get_running_loop().create_task(self._reconnect(reason)))

    async def settle(self, client: Any, replies: deque[str]) -> None:
        """Acknowledges messages to the server; without a connection it will deliver them again."""
        for reply in replies:
            self._in_flow.pop(_stream_sequence(reply), None)
            if client is not None:
                await client.publish(reply, b"+ACK")
        self._has_changed.set()

    async def _prepare_consumer(self, js: Any) -> None:
        api, errors = _library()
        try:
            found = await js.consumer_info(self._stream, self._durable)
        except errors.NotFoundError:
            await js.stream_info(self._stream)
            found = await js.add_consumer(
                self._stream,
                api.ConsumerConfig(
                    durable_name=self._durable,
                    ack_policy=api.AckPolicy.EXPLICIT,
                    ack_wait=self._ack_wait_s,
                    max_ack_pending=self._capacity,
                    filter_subject=self._subject or None,
                ),
            )
        if self._is_first and found.num_ack_pending and not found.num_waiting:
            # Nobody else reads from it. Servers before 2.14 cannot do this: they deliver what is
            # unsettled after the acknowledgement time, behind newer messages.
            with contextlib.suppress(errors.APIError):
                await js.reset_consumer(self._stream, self._durable)

    async def _run(self, client: Any, inbox: str) -> None:
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{self._stream}.{self._durable}"
        while not client.is_closed:
            self._has_changed.clear()
            room = self._capacity - len(self._in_flow) - self._requested
            count = min(room, REQUEST_MESSAGES)
            if count > 0 and self._requested < REQUEST_MESSAGES // 2:
                request = {"batch": count, "expires": int(EXPIRES_S * 1e9)}
                with contextlib.suppress(Exception):
                    await client.publish(subject, json.dumps(request).encode(), reply=inbox)
                self._requested += count
            try:
                await asyncio.wait_for(self._has_changed.wait(), EXPIRES_S + GRACE_S)
            except TimeoutError:
                # Every request has expired: the server has forgotten them.
                self._requested = 0

    async def _on_message(self, message: Any) -> None:
        if not message.reply.startswith("$JS.ACK."):
            self._on_status(message)
            return
        self._requested = max(0, self._requested - 1)
        sequence = _stream_sequence(message.reply)
        if sequence not in self._in_flow:
            # Otherwise it took longer than the acknowledgement time, and is still in the flow.
            self._in_flow[sequence] = None
            self._receive(message)
        if self._requested < REQUEST_MESSAGES // 2:
            self._has_changed.set()

    def _on_status(self, message: Any) -> None:
        """The end of a request, and how many of its messages will not come."""
        left = (message.headers or {}).get("Nats-Pending-Messages")
        self._requested = max(0, self._requested - int(left)) if left else 0
        asyncio.get_running_loop().call_later(0.05, self._has_changed.set)


class OutgoingMessage(NamedTuple):
    subject: str
    data: bytes
    headers: dict[str, str]


class Rejected(OSError):
    """The server did not store a message."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class JetStreamWriter:
    """Stores batches. `publish_async` of the library never ends when the server answers with an
    error, and a `request` per message costs twice as much."""

    def __init__(self) -> None:
        self._inbox = ""
        self._batch = 0
        self._missing: set[str] = set()
        self._error: Rejected | None = None
        self._refused: dict[int, Rejected] = {}
        self._is_done = asyncio.Event()

    async def start(self, client: Any) -> None:
        """Called for each new connection."""
        self._inbox = client.new_inbox()
        await client.subscribe(f"{self._inbox}.*", cb=self._on_answer)

    async def store(
        self, client: Any, messages: list[OutgoingMessage], wait_s: float
    ) -> dict[int, Rejected]:
        """Returns when each message is stored, and which of them are refused for good, by their
        positions. Raises after all answers what may pass, or `TimeoutError`."""
        if not messages:
            return {}
        self._batch += 1
        replies = [f"{self._inbox}.{self._batch}-{number}" for number in range(len(messages))]
        self._missing, self._error, self._refused = set(replies), None, {}
        self._is_done.clear()
        for reply, (subject, data, headers) in zip(replies, messages, strict=True):
            await client.publish(subject, data, reply=reply, headers=headers)
        await asyncio.wait_for(self._is_done.wait(), wait_s)
        if self._error is not None:
            raise self._error
        return self._refused

    async def _on_answer(self, message: Any) -> None:
        if message.subject not in self._missing:
            # An answer to an earlier try.
            return
        self._missing.remove(message.subject)
        if not message.data:
            self._error = self._error or Rejected(NO_STREAM, "no stream stores the subject")
        elif b'"error"' in message.data:
            error = json.loads(message.data).get("error") or {}
            found = Rejected(error.get("err_code", 0), error.get("description", "rejected"))
            if found.code in FOR_GOOD:
                self._refused[int(message.subject.rpartition("-")[2])] = found
            else:
                self._error = self._error or found
        if not self._missing:
            self._is_done.set()


def _stream_sequence(reply: str) -> int:
    parts = reply.split(".")
    # Newer servers put the domain and the account before the stream.
    return int(parts[5] if len(parts) < 11 else parts[7])


def _library() -> tuple[Any, Any]:
    from nats.js import api, errors

    return api, errors
