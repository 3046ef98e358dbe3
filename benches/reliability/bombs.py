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
BOMBS = (
    ("memory-bomb", "a memory bomb", "takes all memory and writes to it", "text-bomb", "fill"),
    ("handle-bomb", "a handle bomb", "allocates buffers for ever", "chaos", "handles"),
    ("payload-bomb", "a payload bomb", "payloads of 1 MiB", "text-bomb", "bytes"),
    ("string-bomb", "a huge string", "an error as long as its memory", "text-bomb", "error"),
    ("line-bomb", "a line bomb", "prints 8 million line ends", "line-bomb", "x"),
)
LINES = tuple(
    Line(name, fault, how, 10, UNIT, _growth(guest, payload))
    for name, fault, how, guest, payload in BOMBS
)
