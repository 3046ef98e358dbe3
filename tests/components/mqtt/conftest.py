"""A broker, a publisher and a source that is driven by hand."""

import threading

import pytest
from mosquitto import running_broker
from paho.mqtt import client as mqtt

from torvyn._contract.signals import PENDING
from torvyn.components import MqttSource as Mqtt
from torvyn.components.config import config_text


@pytest.fixture
def broker(tmp_path):
    with running_broker(tmp_path) as broker:
        yield broker


class Peer:
    """Another client of the broker: paho, as it is."""

    def __init__(self, broker):
        self.received = []
        self._arrived = threading.Condition()
        self.client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5)
        self.client.on_message = self._on_message
        self._subscribed = threading.Event()
        self.client.on_subscribe = lambda *_: self._subscribed.set()
        self.client.connect("127.0.0.1", broker.port)
        self.client.loop_start()

    def publish(self, topic, *payloads, **options):
        sent = [self.client.publish(topic, text, qos=1, **options) for text in payloads]
        for each in sent:
            each.wait_for_publish(20)

    def subscribe(self, topic):
        self.client.subscribe(topic, 1)
        assert self._subscribed.wait(20)

    def wait_for(self, count):
        with self._arrived:
            assert self._arrived.wait_for(lambda: len(self.received) >= count, 20)
        return self.received

    def close(self):
        self.client.disconnect()
        self.client.loop_stop()

    def _on_message(self, client, userdata, message):
        with self._arrived:
            self.received.append(message)
            self._arrived.notify_all()


@pytest.fixture
def peer(broker):
    peer = Peer(broker)
    yield peer
    peer.close()


class DrivenSource:
    """A source outside a flow: the test pulls and acknowledges."""

    def __init__(self, url, topics="t/#", **config):
        self.source = Mqtt()
        self._woken = threading.Event()
        self.source.wake = self._woken.set
        self.source.init(config_text({"url": url, "topics": topics, "client_id": "test", **config}))

    def take(self, count):
        """The next elements, as soon as they are there."""
        return [self._next() for _ in range(count)]

    def texts(self, count):
        return [bytes(output.data).decode() for output in self.take(count)]

    def _next(self):
        while True:
            self._woken.clear()
            output = self.source.pull()
            if output is not PENDING:
                return output
            assert self._woken.wait(20), self.source.connection.status

    @property
    def waiting(self):
        return len(self.source._ready)

    def close(self):
        self.source.teardown()


@pytest.fixture
def driven():
    """Opens sources, and closes them at the end."""
    opened = []

    def open_source(url, **config):
        opened.append(DrivenSource(url, **config))
        return opened[-1]

    yield open_source
    for each in opened:
        each.close()
