"""Many messages at once are read by one consumer, in order."""

from __future__ import annotations

import json

from nats_parts import Collected, check_account, part

import torvyn
from nats_server import NatsServer
from torvyn._io.jetstream import BrokerThread
from torvyn._io.nats import ask

KEYS, EACH = 500, 8


class PassOn(torvyn.Processor):
    def process(self, element: torvyn.Element) -> str:
        return element.text


def rows() -> list[str]:
    return [json.dumps({"key": f"k{at % KEYS}", "at": at}) for at in range(KEYS * EACH)]


def test_a_burst_of_messages_needs_one_consumer(server: NatsServer) -> None:
    """A reader that loses one of them makes its consumer anew, which shows on the server."""
    sink = Collected()
    flow = torvyn.Flow(name="main")
    flow.add("a", rows()).add("b", PassOn, key="key", max_keys=KEYS).add("c", sink)
    flow.connect("a", "b", carrier="nats").connect("b", "c")
    part(flow, "a").run()
    reader = part(flow, "b")
    reader.run()
    check_account(reader)
    found = [json.loads(text) for text in sink.texts]
    for key in range(KEYS):
        of_key = [row["at"] for row in found if row["key"] == f"k{key}"]
        assert of_key == list(range(key, KEYS * EACH, KEYS))
    broker = BrokerThread(server.url, "main")
    names = broker.call(ask(broker.broker, "CONSUMER.NAMES.TV_t_main_a-output-b"))
    broker.close()
    assert names["total"] == 1
