"""The messages that were received and not acknowledged yet, in the order in which they came.

MQTT wants acknowledgements in that order, which is also the order in which a flow gives them. After
a reconnect the broker sends every unacknowledged message again, with the same packet id. Those that
are still in the flow are not handed on a second time: the new copy only renews their packet id. If
the session was lost, their packet ids mean nothing any more and are never sent.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from torvyn.components.mqtt.packets import DUP, Message

_VOID = 0
"""The packet id of a message that needs no acknowledgement: QoS 0, or of a session that is gone."""


class UnacknowledgedMessages:
    def __init__(self) -> None:
        self._packet_ids: deque[int] = deque()
        self._expected: set[int] = set()
        """Packet ids that the broker will send again; until then they may not be acknowledged."""
        self._settled: set[int] = set()
        """Those of them that the flow has settled in the meantime."""

    def __len__(self) -> int:
        return len(self._packet_ids)

    def disconnected(self) -> None:
        """Nothing can be acknowledged until the broker has sent it again."""
        self._expected |= {packet_id for packet_id in self._packet_ids if packet_id != _VOID}

    def session_lost(self) -> None:
        """The broker has forgotten the packet ids."""
        self._packet_ids = deque([_VOID] * len(self._packet_ids))
        self._expected, self._settled = set(), set()

    def add(self, messages: Iterable[Message]) -> Iterator[Message]:
        """Keeps the packet ids, and yields the messages that are new."""
        if not self._expected:
            for message in messages:
                self._packet_ids.append(message.packet_id)
                yield message
            return
        for message in messages:
            if self._is_new(message):
                self._packet_ids.append(message.packet_id)
                yield message

    def _is_new(self, message: Message) -> bool:
        packet_id = message.packet_id
        if packet_id not in self._expected:
            return True
        self._expected.discard(packet_id)
        if message.flags & DUP:
            return False
        # Another message: the broker has given up the one that had this packet id.
        self._settled.discard(packet_id)
        known = self._packet_ids
        self._packet_ids = deque(_VOID if each == packet_id else each for each in known)
        return True

    def settle(self, count: int) -> list[int]:
        """The packet ids to acknowledge now that the next `count` messages are settled."""
        popleft = self._packet_ids.popleft
        packet_ids = [packet_id for _ in range(count) if (packet_id := popleft()) != _VOID]
        if not self._expected:
            return packet_ids
        self._settled |= self._expected.intersection(packet_ids)
        return [packet_id for packet_id in packet_ids if packet_id not in self._expected]

    def take_settled(self) -> list[int]:
        """Packet ids that were settled before they were sent again, and have been sent again."""
        if not self._settled:
            return []
        ready = [packet_id for packet_id in self._settled if packet_id not in self._expected]
        self._settled.difference_update(ready)
        return ready
