"""The subscriptions of a session: made again on every connection where that is needed.

A session outlives the process, and with it the subscriptions of an older config, of which MQTT
gives no list. A message whose topic the config does not ask for proves that there is one: then
every filter that could have matched it is unsubscribed. Nothing else ever is, so that the broker
keeps messages while the flow is down.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator, Sequence
from typing import Any, Final

logger = logging.getLogger("torvyn.mqtt")

_MAX_LEVELS: Final = 6
"""Deeper topics have too many filters that could match: only the plain ones are tried."""
_MAX_KNOWN: Final = 4096


class Subscriptions:
    def __init__(self, topics: Sequence[str], qos: int, is_v5: bool) -> None:
        self._topics = tuple(topics)
        self._filters = tuple(_without_group(topic) for topic in topics)
        self._qos = qos
        self._is_v5 = is_v5
        self._packet_id = 0
        self._is_made = False
        self._known: set[bytes] = set()

    def send(self, client: Any, is_resumed: bool) -> bool:
        """Subscribes. Returns False if the broker has the subscriptions already."""
        if is_resumed and self._is_made:
            return False
        _, self._packet_id = client.subscribe([(topic, self._options()) for topic in self._topics])
        return True

    def refusal(self, packet_id: int, refusals: Sequence[str | None]) -> str | None:
        """Why the broker refuses a topic, or None: all are subscribed."""
        if packet_id != self._packet_id:
            return None
        for topic, why in zip(self._topics, refusals, strict=False):
            if why is not None:
                return f"the broker refused the subscription to `{topic}`: {why}"
        self._is_made = True
        return None

    def stale_filters(self, topic: bytes) -> list[str]:
        """The filters to unsubscribe because of a message of this topic; most often none."""
        if topic in self._known:
            return []
        if len(self._known) >= _MAX_KNOWN:
            self._known.clear()
        self._known.add(topic)
        name = topic.decode(errors="replace")
        if any(matches(each, name) for each in self._filters):
            return []
        logger.warning(
            "`mqtt`: the session has a subscription to `%s` from an older config; it is removed",
            name,
            extra={"event": "mqtt.subscription-removed", "topic": name},
        )
        return [*_possible_filters(name)]

    def _options(self) -> Any:
        if not self._is_v5:
            return self._qos
        from paho.mqtt.subscribeoptions import SubscribeOptions

        # Retained messages are sent again only for a subscription that is new.
        return SubscribeOptions(
            qos=self._qos, retainHandling=SubscribeOptions.RETAIN_SEND_IF_NEW_SUB
        )


def matches(filter: str, topic: str) -> bool:
    """Whether a subscription to the filter receives messages of the topic."""
    if topic.startswith("$") and filter[:1] in ("+", "#"):
        return False
    levels = topic.split("/")
    for at, level in enumerate(filter.split("/")):
        if level == "#":
            return True
        if at >= len(levels) or level not in ("+", levels[at]):
            return False
    return filter.count("/") == topic.count("/")


def _possible_filters(topic: str) -> Iterator[str]:
    levels = topic.split("/")
    choices = [(level, "+") if len(levels) <= _MAX_LEVELS else (level,) for level in levels]
    for count in range(len(levels) + 1):
        for path in itertools.product(*choices[:count]):
            yield "/".join((*path, "#"))
            if count == len(levels):
                yield "/".join(path)


def _without_group(topic: str) -> str:
    """`$share/group/topic` -> `topic`."""
    return topic.split("/", 2)[2] if topic.startswith("$share/") else topic
