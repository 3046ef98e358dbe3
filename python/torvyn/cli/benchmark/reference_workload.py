"""Reference work: a fixed piece of plain Python, timed between the rounds of a benchmark.

A machine is not equally fast at all times: its clock changes, and other programs use its cores and
caches. A flow's rate divided by the rate of the reference next to it changes much less. The work
must stay as it is, and must use nothing of torvyn: results of different versions are compared.
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
    """About 50 us of what components do most: strings, dictionaries and lists."""
    counts: dict[str, int] = {}
    words: list[str] = []
    for number in range(400):
        word = str(number % 37)
        counts[word] = counts.get(word, 0) + 1
        words.append(word)
    return len("".join(words).split("3")) + len(counts)
