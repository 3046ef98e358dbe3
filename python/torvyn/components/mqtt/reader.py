"""Splits what arrives into packets. Messages and acknowledgements are decoded here, in groups;
others are handed on as they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from torvyn.components.mqtt.packets import (
    PUBACK,
    PUBLISH,
    Message,
    decode_acknowledgement,
    decode_publish,
    packet_end,
)


class Receiver(Protocol):
    """Takes what was decoded from one read."""

    def on_messages(self, messages: list[Message]) -> None: ...
    def on_acknowledgements(self, answers: list[tuple[int, int]]) -> None:
        """Packet ids and reason codes; 0 is success."""


class PacketReader:
    """The packets of one connection."""

    def __init__(self, is_v5: bool, receiver: Receiver, on_other: Callable[[bytes], None]) -> None:
        self._is_v5 = is_v5
        self._receiver = receiver
        self._on_other = on_other
        self._pieces: list[bytes] = []
        self._size = self._needed = 0

    def feed(self, data: bytes) -> None:
        """Handles the packets that are complete now; raises `ValueError` or `IndexError` for bytes
        that are not MQTT."""
        if self._pieces:
            # A long packet arrives in many pieces: they are joined once, when it is complete.
            self._pieces.append(data)
            self._size += len(data)
            if self._size < self._needed:
                return
            data = b"".join(self._pieces)
        used, self._needed = self._decode(data)
        self._pieces = [data[used:]] if used < len(data) else []
        self._size = len(data) - used

    def _decode(self, data: bytes) -> tuple[int, int]:
        """Returns how many bytes the complete packets have, and how many the next one needs."""
        messages: list[Message] = []
        answers: list[tuple[int, int]] = []
        is_v5, position, size, needed = self._is_v5, 0, len(data), 2
        while position < size:
            start, end = packet_end(data, position)
            if end == 0 or end > size:
                needed = max(2, end - position)
                break
            first = data[position]
            kind = first & 0xF0
            if kind == PUBLISH:
                messages.append(decode_publish(data, first, start, end, is_v5))
            elif kind == PUBACK:
                answers.append(decode_acknowledgement(data, start, end))
            else:
                self._on_other(data[position:end])
            position = end
        if messages:
            self._receiver.on_messages(messages)
        if answers:
            self._receiver.on_acknowledgements(answers)
        return position, needed
