"""Options of the MQTT source and sink that do not fit are found before anything is connected."""

import pytest
from paho.mqtt.client import topic_matches_sub

from torvyn.components import MqttSink
from torvyn.components import MqttSource as Mqtt
from torvyn.components.config import config_text
from torvyn.components.mqtt.subscriptions import matches
from torvyn.errors import ContractError

URL = "mqtt://localhost"


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"qos": 2}, "a QoS 2 message is confirmed to the broker before the flow has it"),
        ({"url": "http://localhost"}, "not the address of a broker"),
        ({"url": "mqtt://me:pw@localhost"}, "must not have a user or a password"),
        ({"url": "mqtt://localhost:port"}, "cannot be read"),
        ({"url": "mqtt://localhost/t"}, "more than a host and a port"),
        ({"topics": "a/#/b"}, "nobody can subscribe"),
        ({"topics": "a/b+"}, "nobody can subscribe"),
        ({"topics": "$share/group"}, "nobody can subscribe"),
        ({"topics": []}, "`topics` is empty"),
        ({"password": "x"}, "`password` without `user`"),
        ({"ca_file": "ca.pem"}, "needs TLS"),
        ({"url": "mqtts://h", "cert_file": "c.pem"}, "belong together"),
        ({"url": "mqtts://h", "ca_file": "/no/such/file"}, "cannot be loaded"),
        ({"will": {"topic": "a/#"}}, "not the name of a topic"),
        ({"will": {"topic": "a", "when": 1}}, "`will` has no option `when`"),
        ({"will": {"topic": "a", "qos": 3}}, "`will.qos`"),
        ({"receive_maximum": 70000}, "at most 65535"),
    ],
)
def test_a_source_names_the_option_that_is_wrong(wrong, said):
    with pytest.raises(ContractError) as caught:
        Mqtt().init(config_text({"url": URL, "topics": "t", **wrong}))
    assert said in caught.value.message
    assert "pw@" not in caught.value.render()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"topic": "a/#"}, "not the name of a topic"),
        ({"topic": "a/{}"}, "a brace that names no field"),
        ({"topic": "a/{b"}, "a brace that names no field"),
        ({"qos": 2}, "not 0 or 1"),
    ],
)
def test_a_sink_names_the_option_that_is_wrong(wrong, said):
    with pytest.raises(ContractError, match=said):
        MqttSink().init(config_text({"url": URL, "topic": "t", **wrong}))


@pytest.mark.parametrize(
    ("pattern", "topic", "is_match"),
    [
        ("a/b", "a/b", True),
        ("a/b", "a/b/c", False),
        ("a/b/c", "a/b", False),
        ("a/+", "a/b", True),
        ("a/+", "a/", True),
        ("a/+", "a", False),
        ("a/#", "a", True),
        ("a/#", "a/b/c", True),
        ("#", "a/b", True),
        ("#", "$SYS/load", False),
        ("+/load", "$SYS/load", False),
        ("$SYS/#", "$SYS/load", True),
    ],
)
def test_topics_match_filters_as_in_paho(pattern, topic, is_match):
    assert matches(pattern, topic) is topic_matches_sub(pattern, topic) is is_match
