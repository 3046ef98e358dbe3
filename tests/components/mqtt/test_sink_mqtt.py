"""The MQTT sink against a real broker: what is published, and when an element is accepted."""

import asyncio
import json

import pytest
from driven_sink import DrivenSink
from mosquitto import needs_mosquitto, running_broker

import torvyn
from torvyn._contract.element import Element
from torvyn.components import MqttSink as Mqtt
from torvyn.components.config import config_text
from torvyn.errors import InvalidInput, Unavailable

pytestmark = needs_mosquitto


@pytest.fixture
def sink(start):
    def opened(url, **config):
        return DrivenSink(start(Mqtt, config_text({"url": url, "topic": "out", **config})))

    return opened


@pytest.mark.parametrize("version", ["5", "3.1.1"])
@pytest.mark.parametrize("qos", [0, 1])
def test_a_batch_is_published_in_order(broker, peer, sink, version, qos):
    peer.subscribe("out")
    sink(broker.url, version=version, qos=qos).push(*(Element(str(n)) for n in range(300)))

    received = peer.wait_for(300)

    assert [message.payload for message in received] == [b"%d" % n for n in range(300)]


def test_a_flow_publishes_what_its_source_produces(broker, peer):
    peer.subscribe("out")
    flow = torvyn.Flow(["a", "b"], Mqtt({"url": broker.url, "topic": "out"}))

    flow.run()

    assert [message.payload for message in peer.wait_for(2)] == [b"a", b"b"]
    assert flow.statistics.emitted == 2


def test_the_topic_has_fields_of_the_payload_and_attributes(broker, peer, sink):
    peer.subscribe("site/#")
    element = Element(json.dumps({"id": {"name": "pump"}, "n": 7}), attributes={"line": "b"})

    sink(broker.url, topic="site/{id.name}/{n}/{@line}").push(element)

    assert peer.wait_for(1)[0].topic == "site/pump/7/b"


@pytest.mark.parametrize("text", ["{}", '{"id": null}', '{"id": "a+b"}', '{"id": ""}', "no json"])
def test_an_element_whose_topic_cannot_be_made_is_at_fault(broker, sink, text):
    with pytest.raises(InvalidInput):
        sink(broker.url, topic="site/{id}").push(Element(text))


def test_marks_and_the_content_type_become_properties(broker, peer, sink):
    peer.subscribe("out")
    marks = {"seq": 7, "epoch": "boot-3", "historical": True, "other": "x"}

    sink(broker.url).push(Element("{}", content_type="application/json", attributes=marks))

    properties = peer.wait_for(1)[0].properties
    assert properties.ContentType == "application/json"
    assert properties.UserProperty == [("seq", "7"), ("epoch", "boot-3"), ("historical", "true")]


def test_elements_that_were_not_acknowledged_are_sent_after_the_broker_is_back(broker, peer, sink):
    broker.stop()
    out = sink(broker.url)

    async def push_while_the_broker_starts():
        pushed = asyncio.ensure_future(out.sink.push_batch([Element("a"), Element("b")]))
        await asyncio.get_running_loop().run_in_executor(None, broker.start)
        later = await asyncio.get_running_loop().run_in_executor(None, type(peer), broker)
        await asyncio.wait_for(pushed, 20)
        later.close()

    asyncio.run(push_while_the_broker_starts())

    assert broker.count_log("Received PUBLISH from torvyn-") == 2


def test_a_call_that_is_cancelled_while_the_broker_is_away_ends_at_once(broker, sink):
    broker.stop()
    out = sink(broker.url)

    async def cancel():
        pushed = asyncio.ensure_future(out.sink.push(Element("a")))
        await asyncio.sleep(0)
        pushed.cancel()
        await asyncio.wait([pushed])
        return pushed.cancelled()

    assert asyncio.run(cancel())


def test_a_message_that_the_broker_does_not_allow_waits_until_it_does(tmp_path, sink):
    (tmp_path / "acl").write_text("topic write allowed\n")
    options = ("allow_anonymous true", f"acl_file {tmp_path / 'acl'}")
    with running_broker(tmp_path, *options) as broker:
        sink(broker.url, topic="allowed").push(Element("a"))
        out = sink(broker.url, topic="other").sink

        async def push():
            pushed = asyncio.ensure_future(out.push_batch([Element("b")]))
            while "not authorized" not in str(out.connection.status.reason):
                await asyncio.sleep(0.01)
            (tmp_path / "acl").write_text("topic write other\n")
            broker.reload()
            await pushed

        asyncio.run(asyncio.wait_for(push(), 20))

        assert out.connection.status.state == "connected"


def test_an_element_that_the_broker_would_hang_up_on_is_at_fault(tmp_path, sink):
    limit = ("allow_anonymous true", "max_packet_size 1000")
    with running_broker(tmp_path, *limit) as broker:
        out = sink(broker.url)
        with pytest.raises(InvalidInput, match="larger than the broker allows"):
            out.push(Element("x" * 1000))
        with pytest.raises(InvalidInput, match="NUL"):
            out.push(Element("x", attributes={"seq": "\0"}))
        out.push(Element("x" * 900))

        assert out.sink.connection.status.failures == 0


def test_more_messages_than_may_be_in_flight_are_sent_in_turn(broker, peer, sink):
    peer.subscribe("out")

    sink(broker.url, max_in_flight=3).push(*(Element(str(n)) for n in range(20)))

    assert [message.payload for message in peer.wait_for(20)] == [b"%d" % n for n in range(20)]


def test_on_disconnect_fail_makes_a_lost_connection_an_error(broker, sink):
    broker.stop()

    with pytest.raises(Unavailable, match="no connection to mqtt://"):
        sink(broker.url, on_disconnect="fail").push(Element("a"))
