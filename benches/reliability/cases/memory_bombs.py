"""How much memory can a bomb use before it is stopped?"""

from __future__ import annotations

from collections.abc import Callable

from benches.reliability.case import Case, Measurement
from benches.reliability.guests import GUESTS, run_in_process

LIMIT_BYTES = 64 << 20
BOMB = """
import torvyn
path, limit, payload = sys.argv[1], int(sys.argv[2]), sys.argv[3]
list(torvyn.Flow(["x"], new_guest(GUESTS["filter"])))
before = peak_bytes()
guest = new_guest(path)
flow = torvyn.Flow([payload], on_error="skip").add("guest", guest, max_memory_bytes=limit)
list(flow.connect("source", "guest"))
assert [element.text for element in torvyn.Flow(["x"], new_guest(GUESTS["filter"]))] == ["x"]
report(peak_bytes() - before)
"""


def _growth(guest: str, payload: str, program: str = BOMB) -> Callable[[int], Measurement]:
    def measure(rounds: int) -> Measurement:
        samples = []
        for _ in range(rounds):
            grown = run_in_process(program, GUESTS[guest], LIMIT_BYTES, payload)
            samples.append(float("inf") if grown is None else (grown - LIMIT_BYTES) / (1 << 20))
        return Measurement(max(samples), samples, "the host runs another flow afterwards")

    return measure


def content_types(rounds: int) -> Measurement:
    """Flows that fail on their own content type after a guest has used 100,000 others."""
    results = [run_in_process(TYPES, GUESTS["kept-bomb"]) for _ in range(rounds)]
    samples = [float("inf") if failures is None else float(failures) for failures in results]
    return Measurement(max(samples), samples, "200 flows per round")


UNIT = "MiB resident above a limit of 64"
BOMBS = (
    ("memory-bomb", "a memory bomb", "allocates all memory and writes to it", "text-bomb", "fill"),
    ("handle-bomb", "a handle bomb", "allocates buffers without end", "chaos", "handles"),
    ("payload-bomb", "a payload bomb", "payloads of 1 MiB", "text-bomb", "bytes"),
    ("string-bomb", "a huge string", "an error as long as its memory", "text-bomb", "error"),
    ("line-bomb", "a line bomb", "prints 8 million line ends", "line-bomb", "x"),
    ("attribute-bomb", "an attribute bomb", "attributes on each buffer", "kept-bomb", "attributes"),
)
IN_FLIGHT = """
import time
import torvyn
path, limit, payload = sys.argv[1], int(sys.argv[2]), sys.argv[3]
class Stuck(torvyn.Sink):
    def push(self, element):
        return torvyn.Signal.PAUSE

list(torvyn.Flow(["x"], new_guest(GUESTS["filter"])))
before = peak_bytes()
flow = torvyn.Flow([payload] * 500, on_error="skip").add("out", Stuck())
flow.add("guest", new_guest(path), max_memory_bytes=limit)
flow.connect("source", "guest").connect("guest", "out").start()
deadline = time.monotonic() + 5
while not flow.statistics.nodes["guest"].guest.traps and time.monotonic() < deadline:
    time.sleep(0.01)
report(peak_bytes() - before)
"""
TYPES = """
import torvyn
list(torvyn.Flow(["types"], new_guest(sys.argv[1])))
failures = 0
for number in range(200):
    flow = torvyn.Flow([torvyn.Output("x", content_type=f"application/x-{number}")])
    try:
        (element,) = flow.add("guest", new_guest(GUESTS["filter"])).connect("source", "guest")
        failures += element.content_type != f"application/x-{number}"
    except torvyn.errors.TorvynError:
        failures += 1
report(failures)
"""
CASES = (
    *(
        Case(name, fault, how, 10, UNIT, _growth(guest, payload))
        for name, fault, how, guest, payload in BOMBS
    ),
    Case(
        "attributes-in-flight",
        "an attribute bomb",
        "attributes on each element in a full queue",
        10,
        UNIT,
        _growth("kept-bomb", "fly", IN_FLIGHT),
    ),
    Case(
        "content-types",
        "a guest that uses many content types",
        "100,000 in one call",
        0,
        "other flows that fail on their own type",
        content_types,
    ),
)
