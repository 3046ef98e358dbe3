"""`mqtt`: the messages of an MQTT broker. QoS 1 messages are acknowledged when the flow has them.

A thread receives messages and puts them where `pull` takes them. The broker gets its PUBACK only
when every sink has accepted what became of a message, or a disk edge has stored it, so a message
that was in memory when the process died is sent again. The session survives the process: nothing is
unsubscribed at the end.
"""

from __future__ import annotations

import hashlib
import socket
from collections import deque
from collections.abc import Sequence
from typing import Any, ClassVar, Final

from torvyn._contract.element import Output
from torvyn._contract.roles import Source
from torvyn._contract.signals import PENDING, Pending
from torvyn.components.config import wrong_config
from torvyn.components.mqtt.mqtt_component import MqttComponent
from torvyn.components.mqtt.options import (
    SHARED_OPTIONS,
    Broker,
    BrokerLimits,
    check_shared,
    make_broker,
)
from torvyn.components.mqtt.packets import RETAIN, Message, encode_acknowledgements
from torvyn.components.mqtt.subscriptions import Subscriptions
from torvyn.components.mqtt.unacknowledged_messages import UnacknowledgedMessages
from torvyn.components.spec import Option, Spec

MAX_RECEIVE: Final = 65535
_MAX_TOPICS_KNOWN: Final = 4096

SPEC = Spec(
    name="mqtt",
    role="source",
    summary="Receives the messages of an MQTT broker, and acknowledges those that are settled.",
    options=(
        *SHARED_OPTIONS,
        Option(
            "topics",
            "words",
            None,
            "The topics to subscribe to, with `+` and `#`, or `$share/group/topic`.",
            required=True,
        ),
        Option(
            "qos",
            "integer",
            1,
            "1: each message at least once. 0: messages are lost when a connection is.",
            minimum=0,
        ),
        Option(
            "client_id",
            "text",
            "",
            "The name of our session at the broker, which must be ours alone; default: made from "
            "the host's name, the broker and the topics.",
        ),
        Option(
            "session_expiry",
            "duration",
            168 * 3600.0,
            "How long the broker keeps our session and its messages while we are away (version 5).",
            minimum=0,
        ),
        Option(
            "receive_maximum",
            "integer",
            1000,
            "How many messages may be in the flow and not settled.",
            minimum=1,
        ),
    ),
    example="""\
[flow.main.nodes.sensors]
component = "mqtt"
config = { url = "mqtt://localhost:1883", topics = ["sensors/#"], client_id = "gateway-7" }
""",
)


class Mqtt(MqttComponent, Source):
    spec: ClassVar[Spec] = SPEC
    is_exclusive = True

    def configure(self, options: dict[str, Any]) -> Broker:
        broker = make_broker(
            SPEC,
            options,
            client_id=options["client_id"] or _client_id(options["url"], options["topics"]),
            clean_start=options["qos"] == 0,
            session_expiry_s=round(min(options["session_expiry"], 0xFFFFFFFF)) * options["qos"],
            receive_maximum=options["receive_maximum"],
        )
        self._failure: str | None = None
        self._limit: int = options["receive_maximum"]
        self._ready: deque[Message] = deque()
        self._settled: deque[int] = deque()
        self._unsettled = UnacknowledgedMessages()
        self._attributes: dict[tuple[bytes, int], dict[str, Any]] = {}
        self._subscriptions = Subscriptions(options["topics"], options["qos"], broker.is_v5)
        return broker

    @staticmethod
    def check_options(options: dict[str, Any]) -> None:
        """Called by the linker too, before the flow starts."""
        check_shared(SPEC, options)
        if options["qos"] > 1:
            hint = "use 1, and drop repeated messages downstream where that matters"
            why = "a QoS 2 message is confirmed to the broker before the flow has it"
            raise wrong_config(SPEC, f"`qos` cannot be {options['qos']}: {why}", hint)
        if options["receive_maximum"] > MAX_RECEIVE:
            raise wrong_config(SPEC, f"`receive_maximum` is at most {MAX_RECEIVE}")
        for topic in options["topics"]:
            if not _is_filter(topic):
                hint = "`+` stands for one level, and `#` for all levels at the end"
                raise wrong_config(SPEC, f"nobody can subscribe to the topic {topic!r}", hint)
        if not options["topics"]:
            raise wrong_config(SPEC, "`topics` is empty")

    def pull(self) -> Output | Pending:
        if self._ready:
            return self._output(self._ready.popleft())
        if self._failure is not None:
            raise self.unavailable(self._failure)
        return PENDING

    def acknowledge(self, count: int) -> None:
        self._settled.append(count)
        if self._link is not None:
            self._link.wake()

    def _output(self, message: Message) -> Output:
        topic, _, payload, flags, properties = message
        known = self._attributes
        key = (topic, flags & 0x07)
        attributes = known.get(key)
        if attributes is None:
            if len(known) >= _MAX_TOPICS_KNOWN:
                known.clear()
            name = topic.decode(errors="replace")
            retain = bool(flags & RETAIN)
            attributes = known[key] = {"topic": name, "qos": message.qos, "retain": retain}
        if properties is None:
            return Output(payload, attributes=attributes)
        attributes = {**attributes, "properties": properties}
        content_type = properties.get("content_type")
        return Output(payload, content_type=content_type, attributes=attributes)

    # On the link's thread

    @property
    def is_full(self) -> bool:
        # Not only the broker keeps to it: mosquitto sends more when it works off a backlog.
        return len(self._unsettled) >= self._limit

    def on_messages(self, messages: list[Message]) -> None:
        self._ready.extend(self._unsettled.add(messages))
        self.wake()
        subscriptions = self._subscriptions
        assert subscriptions is not None
        for topic in {message.topic for message in messages}:
            stale = subscriptions.stale_filters(topic)
            if stale and self._link is not None:
                self._link.unsubscribe(stale)
        self._acknowledge(self._unsettled.take_settled())

    def on_wake(self) -> None:
        count = 0
        while self._settled:
            count += self._settled.popleft()
        if count:
            self._acknowledge(self._unsettled.settle(count))

    def on_connected(self, limits: BrokerLimits) -> None:
        self._failure = None

    def on_session(self, is_resumed: bool) -> None:
        if not is_resumed:
            self._unsettled.session_lost()

    def on_disconnected(self, reason: str) -> None:
        self._unsettled.disconnected()
        if self._fails:
            self._failure = reason
            self.wake()

    def _acknowledge(self, packet_ids: list[int]) -> None:
        if packet_ids:
            self.send(encode_acknowledgements(packet_ids))


def _client_id(url: str, topics: Sequence[str]) -> str:
    """The same after every restart on this host, so that the session is found again."""
    what = hashlib.sha256("\n".join((url, *sorted(topics))).encode()).hexdigest()[:12]
    return f"torvyn-{socket.gethostname()[:32]}-{what}"


def _is_filter(topic: str) -> bool:
    levels = topic.split("/")
    if levels[0] == "$share":
        if len(levels) < 3 or not levels[1] or any(sign in levels[1] for sign in "+#"):
            return False
        levels = levels[2:]
    if any(len(level) > 1 and {"+", "#"} & set(level) for level in levels) or "\0" in topic:
        return False
    return "#" not in levels[:-1] and 0 < len("/".join(levels).encode()) <= 65535
