"""MQTT in flows: what a killed process loses, and what the error policies acknowledge."""

import itertools
import random
import subprocess
import sys
import threading

import pytest
from mosquitto import needs_mosquitto
from scale import sample

import torvyn
from torvyn.components import MqttSource as Mqtt

pytestmark = needs_mosquitto

ROUNDS = sample(3, full=12)
MESSAGES = 3000

# A flow whose sink has accepted an element when it is in the pipe, which outlives the process.
CHILD = """
import os, sys, torvyn
from torvyn.components import MqttSource as Mqtt

class Pipe(torvyn.Sink):
    def push(self, element):
        os.write(1, bytes(element.data) + b"\\n")

config = {"url": sys.argv[1], "topics": "t", "client_id": "killed", "receive_maximum": 100}
torvyn.Flow(Mqtt(config), Pipe()).run()
"""


def run_and_kill(broker, after):
    """The elements that one process accepted before it was killed with SIGKILL."""
    command = [sys.executable, "-c", CHILD, broker.url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        lines = [*itertools.islice(child.stdout, after)]
        child.kill()
        return [int(line) for line in [*lines, *child.stdout]]


@pytest.mark.timeout(180)
def test_mqtt_qos_7_a_process_that_is_killed_twelve_times_loses_nothing(broker, peer, driven):
    session = driven(broker.url, topics="t", client_id="killed")
    broker.wait_for_log("Sending SUBACK to killed")
    session.close()
    sender = threading.Thread(target=peer.publish, args=("t", *map(str, range(MESSAGES))))
    sender.start()
    seeded = random.Random(7)
    accepted = [run_and_kill(broker, seeded.randrange(1, 200)) for _ in range(ROUNDS)]
    sender.join()

    received = [number for batch in accepted for number in batch]
    left = driven(broker.url, topics="t", client_id="killed", receive_maximum=65535)
    while len(set(received)) < MESSAGES:
        received.append(int(*left.texts(1)))

    assert [*dict.fromkeys(received)] == [*range(MESSAGES)], "the first copies are in order"


def collecting(count):
    taken = []
    reached = threading.Event()

    @torvyn.sink
    def keep(element):
        taken.append(element.text)
        if len(taken) >= count:
            reached.set()

    return keep, taken, reached


@pytest.mark.parametrize("version", ["5", "3.1.1"])
def test_mqtt_qos_7_an_element_that_is_skipped_is_acknowledged(broker, peer, version):
    keep, taken, reached = collecting(2)
    config = {"url": broker.url, "topics": "t", "client_id": "skips", "version": version}
    flow = torvyn.Flow(Mqtt(config), torvyn.processor(parse), keep, on_error="skip")
    started = flow.start()
    broker.wait_for_log("Sending SUBACK to skips")
    peer.publish("t", "1", "no number", "2")
    assert reached.wait(20)
    broker.wait_for_log("Received PUBACK from skips", 3)
    started.cancel()

    assert taken == ["1", "2"]


def parse(element):
    return str(int(element.text))
