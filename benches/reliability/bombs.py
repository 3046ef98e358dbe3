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


def _growth(guest: str, payload: str) -> Callable[[int], Measured]:
    def measure(rounds: int) -> Measured:
        samples = []
        for _ in range(rounds):
            grown = apart(BOMB, GUESTS[guest], LIMIT_BYTES, payload)
            samples.append(float("inf") if grown is None else (grown - LIMIT_BYTES) / (1 << 20))
        return Measured(max(samples), samples, "the host ran another flow afterwards")

    return measure


UNIT = "MiB resident beyond a limit of 64"
LINES = (
    Line("memory-bomb", "a memory bomb", "memory.grow", 10, UNIT, _growth("chaos", "memory")),
    Line(
        "handle-bomb", "a handle bomb", "allocate for ever", 10, UNIT, _growth("chaos", "handles")
    ),
    Line("payload-bomb", "a payload bomb", "1 MiB each", 10, UNIT, _growth("text-bomb", "bytes")),
    Line(
        "string-bomb",
        "a huge string",
        "an error of 64 MiB",
        10,
        UNIT,
        _growth("text-bomb", "error"),
    ),
    Line("line-bomb", "a line bomb", "8 million line ends", 10, UNIT, _growth("line-bomb", "x")),
)
