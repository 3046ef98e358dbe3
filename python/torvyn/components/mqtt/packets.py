"""The MQTT packets of which there is one per message: PUBLISH and PUBACK, of versions 3.1.1 and 5.

Pure. A PUBLISH is decoded in place, from the bytes that were read together with others.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from typing import Any, Final, NamedTuple

PUBLISH: Final = 0x30
PUBACK: Final = 0x40
DISCONNECT: Final = b"\xe0\x00"
PINGREQ: Final = b"\xc0\x00"
DUP: Final = 0x08
RETAIN: Final = 0x01

MAX_LENGTH: Final = 268_435_455
"""The longest packet that MQTT has."""

_ACK: Final = Struct(">BBH").pack
_U16: Final = Struct(">H")

_CONTENT_TYPE, _USER = 0x03, 0x26
_BYTE: Final = {0x01: "payload_format"}
_FOUR_BYTES: Final = {0x02: "message_expiry_s"}
_TEXTS: Final = {_CONTENT_TYPE: "content_type", 0x08: "response_topic"}
_DATA: Final = {0x09: "correlation_data"}
_VARIABLE: Final = {0x0B: "subscription_id"}


class Message(NamedTuple):
    """A PUBLISH that was received."""

    topic: bytes
    packet_id: int
    """0 for QoS 0."""
    payload: bytes
    flags: int
    """The first byte of the packet."""
    properties: dict[str, Any] | None

    @property
    def qos(self) -> int:
        return (self.flags >> 1) & 3


def packet_end(data: bytes, start: int) -> tuple[int, int]:
    """Where the content of the packet begins and where it ends; (0, 0) if more bytes are needed to
    know. Raises `ValueError` for a length that MQTT does not have."""
    length, shift, position = 0, 0, start + 1
    size = len(data)
    while position < size:
        byte = data[position]
        position += 1
        length |= (byte & 0x7F) << shift
        if byte < 0x80:
            return position, position + length
        shift += 7
        if shift > 21:
            raise ValueError("a packet with a length of more than four bytes")
    return 0, 0


def decode_publish(data: bytes, flags: int, start: int, end: int, is_v5: bool) -> Message:
    """The message between `start` and `end`; raises `ValueError` or `IndexError` if it is none."""
    position = start + 2
    topic_end = position + ((data[start] << 8) | data[start + 1])
    topic = data[position:topic_end]
    position = topic_end
    packet_id = 0
    if flags & 0x06:
        packet_id = (data[position] << 8) | data[position + 1]
        position += 2
    properties = None
    if is_v5:
        if data[position]:
            properties, position = _decode_properties(data, position)
        else:
            position += 1
    if position > end:
        raise ValueError("a PUBLISH that is shorter than its fields")
    return Message(topic, packet_id, data[position:end], flags, properties)


def _decode_properties(data: bytes, position: int) -> tuple[dict[str, Any], int]:
    length, position = _variable(data, position)
    end = position + length
    found: dict[str, Any] = {}
    while position < end:
        kind = data[position]
        position += 1
        if kind == _USER:
            name, position = _text(data, position)
            value, position = _text(data, position)
            found.setdefault("user", {})[name] = value
        else:
            name, item, position = _decode_property(data, kind, position)
            found[name] = item
    return found, end


def _decode_property(data: bytes, kind: int, position: int) -> tuple[str, Any, int]:
    if kind in _TEXTS:
        text, position = _text(data, position)
        return _TEXTS[kind], text, position
    if kind in _BYTE:
        return _BYTE[kind], data[position], position + 1
    if kind in _FOUR_BYTES:
        number = int.from_bytes(data[position : position + 4])
        return _FOUR_BYTES[kind], number, position + 4
    if kind in _VARIABLE:
        number, position = _variable(data, position)
        return _VARIABLE[kind], number, position
    if kind in _DATA:
        end = position + 2 + ((data[position] << 8) | data[position + 1])
        return _DATA[kind], data[position + 2 : end].hex(), end
    raise ValueError(f"a PUBLISH with the unknown property 0x{kind:02x}")


def _variable(data: bytes, position: int) -> tuple[int, int]:
    number, shift = 0, 0
    while True:
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, position
        shift += 7


def _text(data: bytes, position: int) -> tuple[str, int]:
    end = position + 2 + ((data[position] << 8) | data[position + 1])
    return data[position + 2 : end].decode(), end


def encode_publish(
    topic: bytes,
    payload: bytes | memoryview,
    *,
    qos: int,
    retain: bool,
    packet_id: int,
    properties: bytes | None,
) -> bytes:
    """A PUBLISH. `properties` as `encode_properties` returns them; None for version 3.1.1."""
    first = PUBLISH | (qos << 1) | retain
    id_bytes = _U16.pack(packet_id) if qos else b""
    head = _U16.pack(len(topic)) + topic + id_bytes + (properties or b"")
    return bytes((first,)) + _encode_variable(len(head) + len(payload)) + head + bytes(payload)


def encode_properties(content_type: str | None, user: Mapping[str, str]) -> bytes:
    """The properties of a PUBLISH, with their length."""
    parts = [] if content_type is None else [b"\x03" + _encode_text(content_type)]
    parts += [b"\x26" + _encode_text(name) + _encode_text(value) for name, value in user.items()]
    body = b"".join(parts)
    return _encode_variable(len(body)) + body


def encode_acknowledgements(packet_ids: list[int]) -> bytes:
    """One PUBACK for each."""
    return b"".join([_ACK(PUBACK, 2, packet_id) for packet_id in packet_ids])


def decode_acknowledgement(data: bytes, start: int, end: int) -> tuple[int, int]:
    """The packet id of a PUBACK, and its reason code: 0 for success."""
    reason = data[start + 2] if end - start > 2 else 0
    return (data[start] << 8) | data[start + 1], reason


def _encode_text(text: str) -> bytes:
    data = text.encode()
    if "\0" in text:
        raise ValueError("a text with a NUL character, which MQTT does not have")
    if len(data) > 0xFFFF:
        raise ValueError(f"a text of {len(data)} bytes; MQTT has at most 65535")
    return _U16.pack(len(data)) + data


def _encode_variable(number: int) -> bytes:
    if number > MAX_LENGTH:
        raise ValueError(f"a packet of {number} bytes; MQTT has at most {MAX_LENGTH}")
    out = bytearray()
    while True:
        number, digit = number >> 7, number & 0x7F
        if not number:
            out.append(digit)
            return bytes(out)
        out.append(digit | 0x80)
