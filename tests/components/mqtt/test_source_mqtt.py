"""The MQTT source against a real broker: what it receives, acknowledges and survives."""

import socket

import pytest
from mosquitto import needs_mosquitto

from torvyn.components import MqttSource as Mqtt
from torvyn.components.config import config_text

pytestmark = needs_mosquitto


def ready(broker, source_id="test", count=1):
    broker.wait_for_log(f"Sending SUBACK to {source_id}", count)


@pytest.mark.parametrize("version", ["5", "3.1.1"])
def test_messages_arrive_in_order_with_their_topics(broker, peer, driven, version):
    source = driven(broker.url, version=version)
    ready(broker)
    peer.publish("t/one", "a", "b")
    peer.publish("t/two", "c", retain=True)

    outputs = source.take(3)

    assert [(bytes(each.data), each.attributes["topic"]) for each in outputs] == [
        (b"a", "t/one"),
        (b"b", "t/one"),
        (b"c", "t/two"),
    ]
    assert outputs[0].attributes["qos"] == 1


@pytest.mark.parametrize("version", ["5", "3.1.1"])
def test_mqtt_qos_7_only_what_was_settled_is_acknowledged(broker, peer, driven, version):
    first = driven(broker.url, version=version)
    ready(broker)
    peer.publish("t", *(str(n) for n in range(10)))
    assert first.texts(10) == [str(n) for n in range(10)]
    first.source.acknowledge(4)
    first.close()

    second = driven(broker.url, version=version)

    assert second.texts(6) == ["4", "5", "6", "7", "8", "9"]


def test_mqtt_qos_7_nothing_is_unsubscribed_when_the_source_stops(broker, peer, driven):
    first = driven(broker.url)
    ready(broker)
    first.close()
    peer.publish("t", "while away")

    assert driven(broker.url).texts(1) == ["while away"]


@pytest.mark.parametrize("stale", ["old/a", "old/+", "old/#", "+/a", "$share/g/new, old/#"])
def test_mqtt_qos_7_subscriptions_that_the_config_no_longer_has_are_removed(
    broker, peer, driven, stale
):
    first = driven(broker.url, topics=f"{stale}, t")
    ready(broker)
    first.close()
    second = driven(broker.url, topics="t, new")
    ready(broker, count=2)
    peer.publish("old/a", "still subscribed")
    broker.wait_for_log("Sending UNSUBACK to test")
    peer.publish("old/a", "no longer")
    peer.publish("new", "wanted")

    assert second.texts(2) == ["still subscribed", "wanted"]


def test_no_more_than_the_receive_maximum_is_in_the_flow(broker, peer, driven):
    source = driven(broker.url, receive_maximum=5)
    ready(broker)
    peer.publish("t", *(str(n) for n in range(20)))
    assert source.texts(5) == ["0", "1", "2", "3", "4"]
    assert source.waiting == 0

    source.source.acknowledge(2)

    assert source.texts(2) == ["5", "6"]


def test_a_wake_up_while_the_last_one_is_handled_is_not_the_last():
    source = Mqtt()
    source.init(config_text({"url": "mqtt://localhost", "topics": "t", "client_id": "test"}))
    link, reader = source._link, source._link._wake_reader

    class InterruptedReader:
        def recv(self, size):
            link.wake()
            return reader.recv(size)

    link._wake_reader = InterruptedReader()
    link.wake()
    link._on_wake()
    link.wake()

    assert reader.recv(1)


def test_a_message_that_is_in_the_flow_is_not_repeated_after_a_reconnect(broker, peer, driven):
    source = driven(broker.url)
    ready(broker)
    peer.publish("t", "a", "b", "c")
    assert source.texts(3) == ["a", "b", "c"]
    peer.close()
    broker.restart()
    broker.wait_for_log("Sending PUBLISH to test (d1", 3)
    source.source.acknowledge(3)
    later = type(peer)(broker)
    later.publish("t", "d")

    assert source.texts(1) == ["d"]
    later.close()


def test_a_source_that_is_full_stops_reading_and_stays_connected(broker, peer, driven):
    source = driven(broker.url, qos=0, receive_maximum=3, keepalive=1)
    ready(broker)
    peer.publish("t", "a", "b", "c")
    assert source.texts(3) == ["a", "b", "c"]
    broker.wait_for_log("Received PINGREQ from test", 3)
    peer.publish("t", "d")
    source.source.acknowledge(3)

    assert source.texts(1) == ["d"]
    assert source.source.connection.status.failures == 0


def test_the_broker_publishes_the_will_of_a_source_that_vanishes(broker, peer, driven):
    peer.subscribe("gone")
    will = {"topic": "gone", "payload": "by power cut", "qos": 1}
    for client_id in ("ends", "vanishes"):
        source = driven(broker.url, will=will, client_id=client_id)
        ready(broker, client_id)
        if client_id == "ends":
            source.close()
        else:
            source.source._link._client.socket().shutdown(socket.SHUT_RDWR)

    assert [message.payload for message in peer.wait_for(1)] == [b"by power cut"]
    assert broker.count_log("Client ends disconnected") == 1


def test_properties_of_version_5_become_attributes(broker, peer, driven):
    from paho.mqtt.packettypes import PacketTypes
    from paho.mqtt.properties import Properties

    properties = Properties(PacketTypes.PUBLISH)
    properties.ContentType = "application/json"
    properties.UserProperty = [("seq", "7"), ("unit", "°C")]
    properties.CorrelationData = b"\x01\xff"
    source = driven(broker.url)
    ready(broker)
    peer.publish("t", "{}", properties=properties)

    (output,) = source.take(1)

    assert output.content_type == "application/json"
    assert output.attributes["properties"] == {
        "content_type": "application/json",
        "user": {"seq": "7", "unit": "°C"},
        "correlation_data": "01ff",
    }


def test_members_of_a_shared_subscription_divide_the_messages(broker, peer, driven):
    both = [driven(broker.url, topics="$share/g/t", client_id=name) for name in ("one", "two")]
    for name in ("one", "two"):
        ready(broker, name)
    peer.publish("t", *"abcdefgh")

    taken = [each.texts(4) for each in both]

    assert sorted(taken[0] + taken[1]) == [*"abcdefgh"]


def test_a_large_message_arrives_whole(broker, peer, driven):
    source = driven(broker.url)
    ready(broker)
    peer.publish("t", "x" * 3_000_000, "small")

    large, small = source.texts(2)

    assert (len(large), small) == (3_000_000, "small")
