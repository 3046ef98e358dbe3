"""The subscriptions of a session: made again on every connection where that is needed.

A session outlives the process, and with it the subscriptions of an older config. Those that the
config no longer has are removed; no other is, so that the broker keeps messages while the flow is
down.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class Subscriptions:
    def __init__(self, topics: Sequence[str], qos: int, is_v5: bool) -> None:
        self._topics = tuple(topics)
        self._qos = qos
        self._is_v5 = is_v5
        self._stale: tuple[str, ...] = ()
        self._packet_id = 0
        self._is_made = False

    def forget(self, earlier: Sequence[str]) -> None:
        """Removes those of the earlier topics that are no longer asked for, on the next
        connection."""
        self._stale = tuple(topic for topic in earlier if topic not in self._topics)

    def send(self, client: Any, is_resumed: bool) -> bool:
        """Subscribes. Returns False if the broker has the subscriptions already."""
        if self._stale:
            client.unsubscribe([*self._stale])
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
        self._is_made, self._stale = True, ()
        return None

    def _options(self) -> Any:
        if not self._is_v5:
            return self._qos
        from paho.mqtt.subscribeoptions import SubscribeOptions

        # Retained messages are sent again only for a subscription that is new.
        return SubscribeOptions(
            qos=self._qos, retainHandling=SubscribeOptions.RETAIN_SEND_IF_NEW_SUB
        )
