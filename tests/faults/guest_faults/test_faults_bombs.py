"""Bombs of memory, handles, payloads, texts and lines stop at their limit, and the host lives."""

from __future__ import annotations

import pytest
from faulty import GUESTS, Apart

LIMIT_BYTES = 64 << 20
SLACK_BYTES = 10 << 20

BOMB = """
ports = sys.argv[3] == "port-bomb"
guest = part(sys.argv[1], max_memory_bytes=int(sys.argv[2]))
if ports:
    guest.ports = ("a",)
# Once with nothing to take, so that the engine and its code are there already.
list(torvyn.Flow(["fine"], part(sys.argv[4])))
before = peak()
flow = torvyn.Flow([sys.argv[5]], on_error="skip")
flow.add("guest", guest, max_memory_bytes=int(sys.argv[2]))
said = []
import logging
logging.getLogger("torvyn").setLevel("INFO")
logging.getLogger("torvyn").addHandler(type("H", (logging.Handler,), {
    "emit": lambda self, record: said.append(record.getMessage()[:5000])})())
flow.add("out", torvyn.sink(lambda element: None))
flow.connect("source", "guest").connect("guest:a" if ports else "guest", "out").run()
alive = [element.text for element in torvyn.Flow(["alive"], part(sys.argv[4]))]
answer({"grew": peak() - before, "said": said, "alive": alive, "lines": len(said)})
"""

BOMBS = [
    ("chaos", "memory", "the sandbox refused 67174400 bytes of memory (the limit is 67108864)"),
    ("chaos", "handles", "the sandbox refused more than 1024 payload handles"),
    ("text-bomb", "fill", "bytes of memory (the limit is 67108864)"),
    ("text-bomb", "bytes", "bytes of payload, "),
    ("text-bomb", "error", "it passed more strings and lists in one call than the host accepts"),
    ("port-bomb", "x", "it passed more strings and lists in one call than the host accepts"),
    ("kept-bomb", "attributes", "the memory limit was exceeded; the sandbox refused "),
]


@pytest.mark.promise("edge.component-budgets")
@pytest.mark.parametrize(("guest", "payload", "words"), BOMBS)
def test_a_bomb_stops_at_its_limit(apart: Apart, guest: str, payload: str, words: str) -> None:
    found = apart(BOMB, GUESTS[guest], LIMIT_BYTES, guest, GUESTS["filter"], payload)

    assert words in "\n".join(found["said"])
    assert found["alive"] == ["alive"]
    assert found["grew"] < LIMIT_BYTES + SLACK_BYTES


def test_a_long_error_is_cut_short(apart: Apart) -> None:
    limit_bytes = 16 << 20
    found = apart(BOMB, GUESTS["text-bomb"], limit_bytes, "text-bomb", GUESTS["filter"], "error")

    assert "bytes)" in found["said"][0]
    assert len(found["said"][0]) < 4500
    assert found["grew"] < 2 * limit_bytes + SLACK_BYTES


def test_a_million_empty_lines_are_not_kept(apart: Apart) -> None:
    found = apart(BOMB, GUESTS["line-bomb"], LIMIT_BYTES, "line-bomb", GUESTS["filter"], "x")

    assert 0 < found["lines"] < 50_000
    assert found["grew"] < LIMIT_BYTES + SLACK_BYTES


IN_FLIGHT = """
import time

class Stuck(torvyn.Sink):
    taken = 0

    def push(self, element):
        self.taken += 1
        return torvyn.Signal.PAUSE if self.taken == 1 else None

def traps():
    return flow.statistics.nodes["guest"].guest.traps

list(torvyn.Flow(["fine"], part(sys.argv[3])))
before = peak()
sink = Stuck()
flow = torvyn.Flow(["fly"] * 500, on_error="skip").add("out", sink)
flow.add("guest", part(sys.argv[1]), max_memory_bytes=int(sys.argv[2]))
flow.connect("source", "guest").connect("guest", "out").start()
until = time.monotonic() + 30
while not traps() and time.monotonic() < until:
    time.sleep(0.001)
stuck = {"grew": peak() - before, "traps": traps(), "taken": sink.taken}
sink.resume()
flow.wait()
answer(stuck | {"taken_at_the_end": sink.taken, "traps_at_the_end": traps()})
"""


def test_attributes_count_until_the_last_element_with_them_is_dropped(apart: Apart) -> None:
    found = apart(IN_FLIGHT, GUESTS["kept-bomb"], LIMIT_BYTES, GUESTS["filter"])

    assert found["grew"] < LIMIT_BYTES + SLACK_BYTES
    # The queue was full of them when the guest was refused more.
    assert found["taken"] == 1
    assert found["traps"] > 0
    # What waited was taken, and so were some that were made when there was room again.
    assert found["taken_at_the_end"] > 20


TYPES = """
list(torvyn.Flow(["types"], part(sys.argv[1])))
before = peak()
(named,) = torvyn.Flow(["types"], part(sys.argv[1]))
names = []
for number in range(5000):
    (element,) = torvyn.Flow([torvyn.Output("x", content_type=f"application/x-{number}")])
    names.append(element.content_type)
answer({"grew": peak() - before, "named": named.content_type, "names": names})
"""


def test_content_types_of_one_guest_take_none_from_other_flows(apart: Apart) -> None:
    found = apart(TYPES, GUESTS["kept-bomb"])

    assert found["named"] == "x/099999"
    assert found["names"] == [f"application/x-{number}" for number in range(5000)]
    assert found["grew"] < SLACK_BYTES
