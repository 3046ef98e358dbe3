"""Reference work: a fixed piece of plain Python, timed between the rounds of a benchmark.

A machine's speed varies with its clock and with other programs. A flow's rate divided by the rate
of the reference work next to it varies much less. The work must never change and must not use
Torvyn, because results of different versions are compared.
"""

from __future__ import annotations

import time
from typing import Final

_SHORTEST_S: Final = 0.0005
_LONGEST_S: Final = 0.05


def reference_rate(round_s: float) -> float:
    """Units of reference work per second, measured for about as long as a round takes."""
    span_s = min(max(round_s, _SHORTEST_S), _LONGEST_S)
    units, begin_s = 0, time.perf_counter()
    while True:
        _unit()
        units += 1
        elapsed_s = time.perf_counter() - begin_s
        if elapsed_s >= span_s:
            return units / elapsed_s


def _unit() -> int:
    """About 50 us of work on strings, dictionaries and lists, as components do."""
    counts: dict[str, int] = {}
    words: list[str] = []
    for number in range(400):
        word = str(number % 37)
        counts[word] = counts.get(word, 0) + 1
        words.append(word)
    return len("".join(words).split("3")) + len(counts)
