"""Sends batches of messages and waits for their acknowledgements. All on the link's thread.

At most `window` messages are on their way at a time. After a reconnect, what was not acknowledged
is sent again, in order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from torvyn.components.mqtt.options import BrokerLimits
from torvyn.components.mqtt.packets import encode_publish

_MAX_PACKET_ID = 65535
_FAILURE = 0x80
"""Reason codes from here on are failures."""
_TOO_LARGE = 0x95
_HEADER_BYTES = 9


class Publication(NamedTuple):
    """A message to publish."""

    topic: bytes
    payload: bytes
    properties: bytes | None

    @property
    def max_bytes(self) -> int:
        """The size of the packet, with the longest of headers."""
        return _HEADER_BYTES + len(self.topic) + len(self.payload) + len(self.properties or b"")


Refusals = list[tuple[int, int]]


class PublicationBatch:
    """Messages that are delivered together; `done` is called once, with those that the broker
    refused: their positions and reason codes."""

    def __init__(self, messages: Sequence[Publication], done: Callable[[Refusals], None]) -> None:
        self.messages = messages
        self.refusals: Refusals = []
        self.left = len(messages)
        self.is_cancelled = False
        self._done = done

    def settle(self, at: int, reason: int) -> None:
        if reason >= _FAILURE:
            self.refusals.append((at, reason))
        self.left -= 1
        if not self.left:
            self._done(self.refusals)


class Publisher:
    def __init__(self, qos: int, retain: bool, max_in_flight: int, send: Callable[[bytes], None]):
        self._qos = qos
        self._retain = retain
        self._max_in_flight = self._window = max_in_flight
        self._max_bytes = BrokerLimits().max_packet_bytes
        self._send = send
        self._is_connected = False
        self._waiting: deque[tuple[PublicationBatch, int]] = deque()
        self._in_flight: dict[int, tuple[PublicationBatch, int]] = {}
        self._last_id = 0

    def publish(self, batch: PublicationBatch) -> None:
        self._waiting.extend((batch, at) for at in range(len(batch.messages)))
        self._fill()

    def connected(self, limits: BrokerLimits) -> None:
        """A new session: nothing in flight has been acknowledged."""
        self._window = min(limits.receive_maximum, self._max_in_flight)
        self._max_bytes = limits.max_packet_bytes
        self._waiting.extendleft(reversed(self._in_flight.values()))
        self._in_flight.clear()
        self._is_connected = True
        self._fill()

    def disconnected(self) -> None:
        self._is_connected = False

    def acknowledged(self, answers: list[tuple[int, int]]) -> None:
        for packet_id, reason in answers:
            found = self._in_flight.pop(packet_id, None)
            if found is not None:
                found[0].settle(found[1], reason)
        self._fill()

    def _fill(self) -> None:
        """Sends what fits into the window, as one write."""
        if not self._is_connected:
            return
        packets, settled = [], []
        while self._waiting and len(self._in_flight) < self._window:
            batch, at = item = self._waiting.popleft()
            if batch.is_cancelled:
                continue
            if batch.messages[at].max_bytes > self._max_bytes:
                # The broker would cut the connection, each time it is sent.
                settled.append((batch, at, _TOO_LARGE))
                continue
            packets.append(self._encode(item))
            if not self._qos:
                settled.append((batch, at, 0))
        self._send(b"".join(packets))
        for batch, at, reason in settled:
            batch.settle(at, reason)

    def _encode(self, item: tuple[PublicationBatch, int]) -> bytes:
        message = item[0].messages[item[1]]
        packet_id = self._next_id() if self._qos else 0
        if packet_id:
            self._in_flight[packet_id] = item
        return encode_publish(
            message.topic,
            message.payload,
            qos=self._qos,
            retain=self._retain,
            packet_id=packet_id,
            properties=message.properties,
        )

    def _next_id(self) -> int:
        while True:
            self._last_id = self._last_id % _MAX_PACKET_ID + 1
            if self._last_id not in self._in_flight:
                return self._last_id
