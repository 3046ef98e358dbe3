"""How much memory does a bomb get before it is stopped?"""

from __future__ import annotations

from collections.abc import Callable

from benches.reliability.line import Line, Measured
from benches.reliability.setting import GUESTS, apart

LIMIT_BYTES = 64 << 20
BOMB = """
import torvyn
path, limit, payload = sys.argv[1], int(sys.argv[2]), sys.argv[3]
list(torvyn.Flow(["x"], part(GUESTS["filter"])))
before = peak_bytes()
guest = part(path)
flow = torvyn.Flow([payload], on_error="skip").add("guest", guest, max_memory_bytes=limit)
list(flow.connect("source", "guest"))
assert [element.text for element in torvyn.Flow(["x"], part(GUESTS["filter"]))] == ["x"]
answer(peak_bytes() - before)
"""


def _growth(guest: str, payload: str, program: str = BOMB) -> Callable[[int], Measured]:
    def measure(rounds: int) -> Measured:
        samples = []
        for _ in range(rounds):
            grown = apart(program, GUESTS[guest], LIMIT_BYTES, payload)
            samples.append(float("inf") if grown is None else (grown - LIMIT_BYTES) / (1 << 20))
        return Measured(max(samples), samples, "the host ran another flow afterwards")

    return measure


def content_types(rounds: int) -> Measured:
    """Flows that fail on a content type of their own after a guest has named 100,000."""
    found = [apart(TYPES, GUESTS["kept-bomb"]) for _ in range(rounds)]
    samples = [float("inf") if failures is None else float(failures) for failures in found]
    return Measured(max(samples), samples, "200 flows a round")


UNIT = "MiB resident beyond a limit of 64"
BOMBS = (
    ("memory-bomb", "a memory bomb", "takes all memory and writes to it", "text-bomb", "fill"),
    ("handle-bomb", "a handle bomb", "allocates buffers for ever", "chaos", "handles"),
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

list(torvyn.Flow(["x"], part(GUESTS["filter"])))
before = peak_bytes()
flow = torvyn.Flow([payload] * 500, on_error="skip").add("out", Stuck())
flow.add("guest", part(path), max_memory_bytes=limit)
flow.connect("source", "guest").connect("guest", "out").start()
until = time.monotonic() + 5
while not flow.statistics.nodes["guest"].guest.traps and time.monotonic() < until:
    time.sleep(0.01)
answer(peak_bytes() - before)
"""
TYPES = """
import torvyn
list(torvyn.Flow(["types"], part(sys.argv[1])))
failures = 0
for number in range(200):
    flow = torvyn.Flow([torvyn.Output("x", content_type=f"application/x-{number}")])
    try:
        (element,) = flow.add("guest", part(GUESTS["filter"])).connect("source", "guest")
        failures += element.content_type != f"application/x-{number}"
    except torvyn.errors.TorvynError:
        failures += 1
answer(failures)
"""
LINES = (
    *(
        Line(name, fault, how, 10, UNIT, _growth(guest, payload))
        for name, fault, how, guest, payload in BOMBS
    ),
    Line(
        "attributes-in-flight",
        "an attribute bomb",
        "attributes on each element in a full queue",
        10,
        UNIT,
        _growth("kept-bomb", "fly", IN_FLIGHT),
    ),
    Line(
        "content-types",
        "a guest that names content types",
        "100,000 in one call",
        0,
        "other flows that fail on a type of their own",
        content_types,
    ),
)
