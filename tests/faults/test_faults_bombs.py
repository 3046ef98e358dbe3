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
    ("chaos", "memory", "it was refused 67174400 bytes of memory, where the limit is 67108864"),
    ("chaos", "handles", "it was refused more than 1024 payload handles"),
    ("text-bomb", "fill", "bytes of memory, where the limit is 67108864"),
    ("text-bomb", "bytes", "bytes of payload, where 67108864 are granted"),
    ("text-bomb", "error", "fuel allocated for hostcalls has been exhausted"),
    ("port-bomb", "x", "fuel allocated for hostcalls has been exhausted"),
]


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
