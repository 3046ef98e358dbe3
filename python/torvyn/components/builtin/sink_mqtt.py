"""`mqtt`: publishes elements to an MQTT broker. With QoS 1, an element is accepted when the broker
has acknowledged it.

What waits is published together and awaited together. While the broker is away, the call waits, so
that the flow feels back-pressure; nothing is given up.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections import deque
from collections.abc import Sequence
from typing import Any, ClassVar, Final

from torvyn._contract.element import BINARY, Element
from torvyn._contract.roles import Sink
from torvyn._io.backoff import Backoff
from torvyn.components.batch_results import BatchResults, Results, raise_refusal
from torvyn.components.config import wrong_config
from torvyn.components.mqtt.mqtt_component import MqttComponent
from torvyn.components.mqtt.options import (
    SHARED_OPTIONS,
    Broker,
    BrokerLimits,
    check_shared,
    make_broker,
)
from torvyn.components.mqtt.packets import encode_properties
from torvyn.components.mqtt.publisher import (
    Publication,
    PublicationBatch,
    Publisher,
    Refusals,
)
from torvyn.components.mqtt.topic_template import topic_template
from torvyn.components.spec import Option, Spec
from torvyn.errors import InvalidInput, Unavailable

MARKS: Final = ("seq", "epoch", "historical")
"""Attributes that become user properties, so that the other side can order and deduplicate."""

_INVALID: Final = {
    0x90: "the topic is invalid",
    0x95: "it is larger than the broker allows",
    0x99: "the payload is not of the stated format",
}
_REASONS: Final = {
    0x80: "unspecified error",
    0x83: "an error of its own",
    0x87: "not authorized",
    0x97: "quota exceeded",
}

_RIGHTS_HINT: Final = "check the rights and the quota of `username` at the broker"

SPEC = Spec(
    name="mqtt",
    role="sink",
    summary="Publishes each element to an MQTT broker, and waits for the broker to have it.",
    options=(
        *SHARED_OPTIONS,
        Option(
            "topic",
            "text",
            None,
            "The topic. `{id}` is a field of the JSON payload, `{@name}` an attribute.",
            required=True,
        ),
        Option("qos", "integer", 1, "1: at least once. 0: without an answer.", minimum=0),
        Option("retain", "boolean", False, "Whether the broker keeps the last message of a topic."),
        Option("client_id", "text", "", "Our name at the broker; default: a new one each time."),
        Option(
            "max_in_flight",
            "integer",
            1000,
            "How many messages may wait for their acknowledgement at a time.",
            minimum=1,
        ),
    ),
    example="""\
[flow.main.nodes.uplink]
component = "mqtt"
config = { url = "mqtts://broker.example.com", topic = "site-7/{id}" }
""",
)


class Mqtt(MqttComponent, Sink):
    spec: ClassVar[Spec] = SPEC
    is_exclusive = True
    waits_without_limit = True

    def configure(self, options: dict[str, Any]) -> Broker:
        broker = make_broker(
            SPEC,
            options,
            client_id=options["client_id"] or f"torvyn-{_host()}-{os.urandom(6).hex()}",
            clean_start=True,
        )
        self._is_v5 = broker.is_v5
        self._topic_of = topic_template(SPEC, options["topic"])
        self._submitted: deque[PublicationBatch] = deque()
        self._current: tuple[asyncio.AbstractEventLoop, asyncio.Future[Refusals]] | None = None
        self._publisher = Publisher(
            options["qos"], options["retain"], options["max_in_flight"], self.send
        )
        return broker

    @staticmethod
    def check_options(options: dict[str, Any]) -> None:
        """Called by the linker too, before the flow starts."""
        check_shared(SPEC, options)
        topic_template(SPEC, options["topic"])
        if options["qos"] > 1:
            hint = "use 1; user properties `seq` and `epoch` let the other side drop repeats"
            raise wrong_config(SPEC, f"`qos` is {options['qos']}, not 0 or 1", hint)

    async def push(self, element: Element) -> None:
        raise_refusal(await self.push_batch((element,)))

    async def push_batch(self, elements: Sequence[Element]) -> Results | None:
        """Returns when the broker has all of them, or refuses them for good."""
        results = BatchResults(elements, self._publication)
        waiting, backoff = results.sendable, Backoff()
        while waiting:
            refusals = await self._publish([message for _, message in waiting])
            again = []
            for at, reason in refusals:
                if reason in _INVALID or self._fails:
                    results.refuse(waiting[at][0], _refusal(reason))
                else:
                    again.append((at, reason))
            waiting = [waiting[at] for at, _ in again]
            if self.connection is None:
                raise Unavailable("the connection is closed")
            if again:
                # A right or a quota: what it is about may change without the elements.
                self.connection.rejected(str(_refusal(again[0][1])), _RIGHTS_HINT)
                await asyncio.sleep(backoff.next_delay_s())
            else:
                self.connection.connected()
        return results.answer

    async def _publish(self, messages: list[Publication]) -> Refusals:
        """What the broker refused of them."""
        if self._link is None:
            raise Unavailable("the connection is closed")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Refusals] = loop.create_future()
        batch = PublicationBatch(messages, lambda refusals: _answer(loop, future, refusals))
        self._current = loop, future
        self._submitted.append(batch)
        self._link.wake()
        try:
            return await future
        finally:
            self._current = None
            batch.is_cancelled = True

    def _publication(self, element: Element) -> Publication:
        """The message of an element; raises `InvalidInput` for what the broker would hang up on."""
        try:
            topic, payload = self._topic_of(element), bytes(element.data)
            return Publication(topic, payload, self._properties(element) if self._is_v5 else None)
        except ValueError as error:
            raise InvalidInput(f"it cannot be an MQTT message: {error}") from error

    def _properties(self, element: Element) -> bytes:
        attributes, kind = element.attributes, element.content_type
        user = {name: _text(attributes[name]) for name in MARKS if name in attributes}
        if element.context is not None and (epoch := element.context.epoch):
            user = {"seq": str(element.sequence), "epoch": epoch, **user}
        return encode_properties(None if kind in ("", BINARY) else kind, user)

    # On the link's thread

    def on_wake(self) -> None:
        while self._submitted:
            self._publisher.publish(self._submitted.popleft())

    def on_connected(self, limits: BrokerLimits) -> None:
        self._publisher.connected(limits)

    def on_disconnected(self, reason: str) -> None:
        self._publisher.disconnected()
        current = self._current
        if self._fails and current is not None:
            _answer(*current, self.unavailable(reason))

    def on_acknowledgements(self, answers: list[tuple[int, int]]) -> None:
        self._publisher.acknowledged(answers)


def _answer(
    loop: asyncio.AbstractEventLoop,
    future: asyncio.Future[Refusals],
    result: Refusals | Exception,
) -> None:
    """Ends the wait of a call, from the link's thread."""

    def settle() -> None:
        if not future.done():
            if isinstance(result, Exception):
                future.set_exception(result)
            else:
                future.set_result(result)

    if not loop.is_closed():
        loop.call_soon_threadsafe(settle)


def _refusal(reason: int) -> Exception:
    if reason in _INVALID:
        return InvalidInput(f"the broker refused the message: {_INVALID[reason]}")
    text = _REASONS.get(reason, f"reason code 0x{reason:02x}")
    return Unavailable(f"the broker refused the message: {text}")


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _host() -> str:
    return socket.gethostname()[:32]
