"""The packets of messages: our codec agrees with paho's, however the bytes are split."""

import contextlib
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from paho.mqtt import _packet
from paho.mqtt.client import Client, MQTTv5, MQTTv311

from torvyn.components.mqtt import packets
from torvyn.components.mqtt.reader import PacketReader

topics = st.text(st.characters(exclude_characters="+#\0", exclude_categories=["Cs"]), min_size=1)
texts = st.text(
    st.characters(exclude_characters="\0\ufeff", exclude_categories=["Cs"]), max_size=20
)


def test_paho_still_has_the_private_methods_that_the_client_uses():
    assert {"_sock_recv", "_packet_queue", "_sock_close"} <= set(vars(Client))


class Received:
    def __init__(self):
        self.messages, self.answers, self.others = [], [], []

    def on_messages(self, messages):
        self.messages += messages

    def on_acknowledgements(self, answers):
        self.answers += answers


def read(data, cuts, is_v5=True):
    """What a reader makes of the bytes when they arrive in pieces."""
    received = Received()
    reader = PacketReader(is_v5, received, received.others.append)
    places = sorted({cut % (len(data) + 1) for cut in cuts} | {0, len(data)})
    for start, end in itertools.pairwise(places):
        reader.feed(data[start:end])
    return received


@given(
    topics, st.binary(max_size=300), st.integers(0, 1), st.booleans(), st.booleans(),
    st.integers(1, 65535), texts, st.dictionaries(texts, texts, max_size=3),
)  # fmt: skip
def test_paho_reads_what_we_publish(topic, payload, qos, retain, is_v5, packet_id, kind, user):
    properties = packets.encode_properties(kind, user) if is_v5 else None
    data = packets.encode_publish(
        topic.encode(), payload, qos=qos, retain=retain, packet_id=packet_id, properties=properties
    )
    start, end = packets.packet_end(data, 0)
    paho = _packet.decode_publish(data[0], data[start:end], MQTTv5 if is_v5 else MQTTv311)
    ours = packets.decode_publish(data, data[0], start, end, is_v5)

    assert end == len(data)
    assert (paho.topic, paho.payload, paho.qos) == (topic.encode(), payload, qos)
    assert (ours.topic, ours.payload, ours.qos, ours.packet_id) == (
        paho.topic, paho.payload, paho.qos, paho.mid
    )  # fmt: skip
    assert paho.retain is retain
    if is_v5:
        assert (ours.properties or {}).get("user", {}) == user
        assert ours.properties["content_type"] == kind == paho.properties.ContentType


@given(st.lists(st.binary(max_size=200), max_size=8), st.lists(st.integers(0, 5000), max_size=8))
def test_the_messages_do_not_depend_on_how_the_bytes_are_split(payloads, cuts):
    data = b"".join(
        packets.encode_publish(
            b"t", payload, qos=1, retain=False, packet_id=n + 1, properties=b"\0"
        )
        + packets.encode_acknowledgements([n + 1])
        + packets.PINGREQ
        for n, payload in enumerate(payloads)
    )

    received = read(data, cuts)

    assert [message.payload for message in received.messages] == payloads
    assert received.answers == [(n + 1, 0) for n in range(len(payloads))]
    assert received.others == [packets.PINGREQ] * len(payloads)


@given(st.binary(max_size=60), st.booleans())
def test_any_bytes_are_read_or_are_an_error(data, is_v5):
    with contextlib.suppress(ValueError, IndexError):
        read(data, [], is_v5)


@pytest.mark.parametrize("size", [0, 127, 128, 16_383, 16_384, 2_097_151, 2_097_152])
def test_lengths_of_one_to_four_bytes(size):
    payload = bytes(size)
    data = packets.encode_publish(b"", payload, qos=0, retain=False, packet_id=0, properties=None)

    assert read(data, range(0, len(data), 65536), is_v5=False).messages[0].payload == payload


@given(st.binary(max_size=40))
def test_any_properties_are_read_or_are_an_error(properties):
    body = b"\x00\x01t\x00\x01" + bytes((len(properties),)) + properties
    with contextlib.suppress(ValueError, IndexError):
        read(b"\x32" + bytes((len(body),)) + body, [])


def test_a_reason_code_comes_with_its_packet_id():
    assert read(b"\x40\x04\x00\x07\x87\x00", []).answers == [(7, 0x87)]
