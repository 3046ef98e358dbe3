"""`nats`: the messages of a NATS subject, or of a JetStream stream.

Without a stream, a message that nobody receives is lost, and so is what was in memory when the
process died. With a stream, a message is acknowledged when the flow has settled it; the server
delivers it again otherwise.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import Any, ClassVar, Final

from torvyn._contract.element import Output
from torvyn._contract.roles import Source
from torvyn._contract.signals import PENDING, Pending
from torvyn._io.connection import Connection
from torvyn.components.config import parse_config, wrong_config
from torvyn.components.network.inbox import CAPACITY, Inbox
from torvyn.components.network.jetstream import JetStreamReader
from torvyn.components.network.nats_client import (
    OPTIONS,
    NatsClient,
    check_options,
    render_servers,
)
from torvyn.components.spec import Option, Spec
from torvyn.errors import Unavailable

logger = logging.getLogger("torvyn.components")

SPEC = Spec(
    name="nats",
    role="source",
    summary="Receives the messages of a NATS subject, or of a JetStream stream.",
    options=(
        Option("subject", "text", "", "The subject; with a stream, which of its messages."),
        Option("queue", "text", "", "Share the subject with the members of this queue group."),
        Option("stream", "text", "", "The JetStream stream to read; it must exist."),
        Option("durable", "text", "", "The durable consumer of the stream; created if missing."),
        Option(
            "ack_wait",
            "duration",
            30.0,
            "When the server delivers a message again that was not settled.",
        ),
        CAPACITY,
        *OPTIONS,
    ),
    main="subject",
    example="""\
[flow.main.nodes.readings]
component = "nats"
config = { stream = "READINGS", durable = "archive", subject = "readings.>" }
""",
)

FULL_WAIT_S: Final = 0.005


class Nats(Source):
    spec: ClassVar[Spec] = SPEC
    unit = "messages"

    _client: NatsClient | None = None
    _reader: JetStreamReader | None = None

    def init(self, config: str) -> None:
        options = parse_config(SPEC, config)
        self.check_options(options)
        self._subject: str = options["subject"]
        self._queue: str = options["queue"]
        self._capacity: int = options["capacity"]
        self._inbox: Inbox[Any] = Inbox(self._capacity, self.wake)
        self._unsettled: deque[str] = deque()
        self._reader = None
        if options["stream"]:
            self._reader = JetStreamReader(
                options["stream"],
                options["durable"],
                self._subject,
                self._capacity,
                options["ack_wait"],
                lambda message: self._inbox.put((message,)),
                self._reconnect,
            )
        self.connection = Connection("nats", render_servers(options))
        self._client = NatsClient(SPEC, options, self.connection, self._subscribe, self.wake)
        self._client.start()

    @staticmethod
    def check_options(options: dict[str, Any]) -> None:
        """Called by the linker too, before the flow starts."""
        check_options(SPEC, options)
        if not options["subject"] and not options["stream"]:
            raise wrong_config(SPEC, "there is no `subject`", "set `subject` or `stream`")
        if bool(options["stream"]) != bool(options["durable"]):
            hint = "a stream is read by a durable consumer: name both, or neither"
            raise wrong_config(SPEC, "`stream` and `durable` belong together", hint)
        if options["stream"] and options["queue"]:
            hint = "the readers of one durable consumer share its messages"
            raise wrong_config(SPEC, "`queue` is for subjects without a stream", hint)

    def pull(self) -> Output | Pending:
        message = self._inbox.take()
        if message is None:
            if self._client is not None and self._client.failure is not None:
                raise Unavailable(f"no connection to NATS: {self._client.failure}")
            return PENDING
        self._unsettled.append(message.reply)
        headers = dict(message.headers or {})
        attributes: dict[str, Any] = {"subject": message.subject}
        if headers:
            attributes["headers"] = headers
        return Output(message.data, content_type=headers.get("Content-Type"), attributes=attributes)

    def acknowledge(self, count: int) -> None:
        replies = deque(self._unsettled.popleft() for _ in range(count))
        if self._reader is not None and self._client is not None:
            self._client.submit(self._reader.settle(self._client.client, replies))

    def teardown(self) -> None:
        client, self._client = self._client, None
        if client is None:
            return
        if self._reader is not None:
            client.call_soon(self._reader.stop)
        client.stop()
        self.connection.close()
        left = self._inbox.close()
        if self._reader is None and (left or client.dropped):
            logger.warning(
                "`nats`: %d messages were received and not processed, %d dropped because the flow "
                "was too slow",
                left,
                client.dropped,
            )

    # On the loop

    async def _reconnect(self, reason: str) -> None:
        if self._client is not None:
            await self._client.reconnect(reason)

    async def _subscribe(self, client: Any) -> None:
        if self._reader is not None:
            await self._reader.start(client)
            return
        await client.subscribe(
            self._subject,
            queue=self._queue,
            cb=self._on_message,
            pending_msgs_limit=self._capacity,
        )
        # The server has the subscription when it answers.
        await client.flush()

    async def _on_message(self, message: Any) -> None:
        while self._inbox.is_full and self._client is not None:
            await asyncio.sleep(FULL_WAIT_S)
        self._inbox.put((message,))
