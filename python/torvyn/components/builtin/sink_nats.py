"""`nats`: publishes each element to a NATS subject, or to a JetStream stream.

To a stream, a batch is delivered when the server has confirmed each of its messages. Each has an
id, so a message that is sent again after a lost confirmation is stored once. Without a stream, a
batch is delivered when the server has received it; whether anybody subscribes is not known.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import uuid
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from torvyn._contract.element import Element
from torvyn._contract.roles import Sink
from torvyn._io.backoff import Backoff
from torvyn._io.connection import Connection
from torvyn.components.batch_results import BatchResults, Results, raise_refusal
from torvyn.components.config import parse_config, wrong_config
from torvyn.components.identity import ONCE, identity_of
from torvyn.components.json_fields import MISSING, get_field, parse_object
from torvyn.components.network.jetstream import (
    NO_STREAM,
    STREAM_FULL,
    JetStreamWriter,
    OutgoingMessage,
    Rejected,
)
from torvyn.components.network.nats_client import (
    OPTIONS,
    NatsClient,
    check_options,
    render_servers,
)
from torvyn.components.spec import Option, Spec
from torvyn.components.template import text_template
from torvyn.errors import InvalidInput, Unavailable, os_reason

SPEC = Spec(
    name="nats",
    role="sink",
    summary="Publishes each element to a NATS subject, or to a JetStream stream.",
    options=(
        Option(
            "subject",
            "text",
            None,
            "The subject; `{field}` stands for a field of the JSON payload, `{@name}` for an "
            "attribute.",
            required=True,
        ),
        Option(
            "jetstream",
            "boolean",
            False,
            "Wait until a stream has stored each message. The stream must exist.",
        ),
        Option(
            "message_id",
            "text",
            "",
            "A dotted path to the field that identifies an element, for streams: within its "
            "duplicate window a stream stores each id once, also after a restart.",
        ),
        ONCE,
        Option("timeout", "duration", 5.0, "How long to wait for a confirmation before a retry."),
        *OPTIONS,
    ),
    main="subject",
    example="""\
[flow.main.nodes.uplink]
component = "nats"
config = { subject = "readings.{device}", jetstream = true, message_id = "id" }
""",
)


class Nats(Sink):
    spec: ClassVar[Spec] = SPEC
    unit = "messages"
    run = "thread"

    _client: NatsClient | None = None
    _sending: concurrent.futures.Future[None] | None = None

    def init(self, config: str) -> None:
        options = parse_config(SPEC, config)
        self.check_options(options)
        self._subject: str = options["subject"]
        self._subject_of = _subject_template(self._subject)
        self._is_stored: bool = options["jetstream"]
        self._id_field: str = options["message_id"]
        self._is_once: bool = options["once"]
        self._timeout_s: float = options["timeout"]
        self._is_over = False
        self._run_id = uuid.uuid4().hex
        self._count = 0
        self.connection = Connection("nats", render_servers(options))
        self._writer = JetStreamWriter()
        self._client = NatsClient(
            SPEC, options, self.connection, self._writer.start, self._on_failed
        )
        self._client.start()

    @staticmethod
    def check_options(options: dict[str, Any]) -> None:
        """Called by the linker too, before the flow starts."""
        check_options(SPEC, options)
        _subject_template(options["subject"])
        if options["once"] and (options["message_id"] or not options["jetstream"]):
            raise wrong_config(SPEC, "`once` is for streams, and instead of a `message_id`")

    def push(self, element: Element) -> None:
        raise_refusal(self.push_batch((element,)))

    def push_batch(self, elements: Sequence[Element]) -> Results | None:
        if self._client is None or self._is_over:
            raise Unavailable("there is no connection to NATS")
        if self._client.failure is not None:
            raise Unavailable(f"no connection to NATS: {self._client.failure}")
        results = BatchResults(elements, self._message)
        self._sending = self._client.submit(self._send_all(self._client, results))
        if self._is_over or self._client.failure is not None:
            self._sending.cancel()
        try:
            self._sending.result()
        except concurrent.futures.CancelledError:
            reason = self._client.failure or "the flow ended while there was no connection"
            raise Unavailable(f"not delivered to NATS: {reason}") from None
        return results.answer

    def unblock(self) -> None:
        self._is_over = True
        if self._sending is not None:
            self._sending.cancel()

    def teardown(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.stop()
            self.connection.close()

    def _on_failed(self) -> None:
        if self._sending is not None:
            self._sending.cancel()

    def _message(self, element: Element) -> OutgoingMessage:
        subject = self._subject_of(element)
        return OutgoingMessage(subject, bytes(element.data), self._headers(element, subject))

    def _headers(self, element: Element, subject: str) -> dict[str, str]:
        headers = {"Content-Type": element.content_type}
        if not self._is_stored:
            return headers
        if self._is_once:
            epoch, sequence = identity_of(element)
            return {**headers, "Nats-Msg-Id": f"{epoch}-{sequence}-{subject}"}
        if not self._id_field:
            self._count += 1
            return {**headers, "Nats-Msg-Id": f"{self._run_id}-{self._count}"}
        value = get_field(parse_object(element), self._id_field)
        if value is MISSING or value is None:
            raise InvalidInput(f"it has no {self._id_field!r}, which is its id")
        return {**headers, "Nats-Msg-Id": str(value)}

    # On the loop

    async def _send_all(self, client: NatsClient, results: BatchResults[OutgoingMessage]) -> None:
        import nats.errors

        backoff, waiting = Backoff(), results.sendable
        while waiting:
            connected = await client.connected()
            waiting = _within(waiting, connected.max_payload, results)
            try:
                refused = await self._send(connected, [message for _, message in waiting])
            except (nats.errors.TimeoutError, TimeoutError):
                await client.reconnect()
            except (nats.errors.Error, OSError) as error:
                self._report(error)
                await asyncio.sleep(backoff.next_delay_s())
            else:
                for at, refusal in refused.items():
                    message = f"the server refused the message: {refusal}"
                    results.refuse(waiting[at][0], InvalidInput(message))
                self.connection.connected()
                return

    async def _send(self, client: Any, messages: list[OutgoingMessage]) -> dict[int, Rejected]:
        """Returns what a stream refused for good, by its position."""
        if self._is_stored:
            return await self._writer.store(client, messages, self._timeout_s)
        await self._publish(client, messages)
        return {}

    def _report(self, error: Exception) -> None:
        reason = os_reason(error).removeprefix("nats: ")
        if isinstance(error, Rejected) and error.code == STREAM_FULL:
            reason = f"the stream of {self._subject} is full"
        elif isinstance(error, Rejected) and error.code == NO_STREAM:
            reason = f"no stream stores {self._subject}"
        self.connection.lost(reason)

    async def _publish(self, client: Any, messages: list[OutgoingMessage]) -> None:
        for subject, data, headers in messages:
            await client.publish(subject, data, headers=headers)
        await client.flush(self._timeout_s)


def _within(
    waiting: list[tuple[int, OutgoingMessage]],
    limit_bytes: int,
    results: BatchResults[OutgoingMessage],
) -> list[tuple[int, OutgoingMessage]]:
    """What the server takes: it would hang up on a larger message, each time it is sent."""
    fitting = []
    for at, message in waiting:
        _, data, headers = message
        size = len(data) + sum(len(name) + len(value) + 4 for name, value in headers.items())
        if size + len("NATS/1.0\r\n\r\n") <= limit_bytes:
            fitting.append((at, message))
            continue
        text = f"its {len(data)} bytes are more than the server takes ({limit_bytes})"
        results.refuse(at, InvalidInput(text))
    return fitting


def _subject_template(template: str) -> Callable[[Element], str]:
    def check(subject: str) -> None:
        if not all(subject.split(".")) or any(sign in subject for sign in "*> \t\r\n"):
            raise wrong_config(SPEC, f"{template!r} is not a subject to publish to")

    return text_template(SPEC, "subject", template, forbidden=".*> \t\r\n", check=check)
