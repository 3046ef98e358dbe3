"""A connected source is swapped while messages arrive."""

import threading

import pytest
from mosquitto import needs_mosquitto

import torvyn
from torvyn.components import MqttSource as Mqtt

pytestmark = needs_mosquitto

MESSAGES = 3000


class Collected(torvyn.Sink):
    """Has all messages when `is_full` is set."""

    def __init__(self):
        super().__init__()
        self.numbers, self.is_full, self.has_begun = [], threading.Event(), threading.Event()

    def push(self, element):
        self.numbers.append(int(element.text))
        self.has_begun.set()
        if len(set(self.numbers)) == MESSAGES:
            self.is_full.set()


@pytest.mark.timeout(120)
def test_a_source_with_a_session_loses_and_repeats_nothing(broker, peer):
    config = {"url": broker.url, "topics": "t", "client_id": "swapped"}
    sink = Collected()
    flow = torvyn.Flow(Mqtt(config), sink).start()
    broker.wait_for_log("Sending SUBACK to swapped")
    sender = threading.Thread(target=peer.publish, args=("t", *map(str, range(MESSAGES))))
    sender.start()
    assert sink.has_begun.wait(20)
    reports = [flow.swap("source", Mqtt(config)) for _ in range(3)]
    assert sink.is_full.wait(60)
    flow.cancel()
    sender.join()

    assert sink.numbers == list(range(MESSAGES))
    assert [report.state for report in reports] == ["none"] * 3
