"""Do paced streams keep their pace beside neighbours that want everything?"""

from __future__ import annotations

import functools
from collections.abc import Callable

from benches.fair_streams import (
    GOAL_GAP_MS,
    GOAL_HEALTH_MS,
    GOAL_KEPT,
    NEIGHBOURS,
    PACED,
    RATE,
    Pace,
    one_round,
)
from benches.reliability.case import Case, Measurement

Figure = Callable[[Pace], float]


@functools.cache
def _rounds(beside: str, rounds: int) -> list[Pace]:
    return [one_round("Torvyn", beside) for _ in range(rounds)]


def _worst(figure: Figure, beside: str, rounds: int) -> Measurement:
    """Of all rounds."""
    samples = [figure(each) for each in _rounds(beside, rounds)]
    return Measurement(max(samples), samples, f"{PACED} streams of {RATE:g} tokens per second")


FIGURES: dict[str, tuple[float, str, Figure]] = {
    "lost": (100 * (1 - GOAL_KEPT), "% of the tokens late", lambda pace: 100 * (1 - pace.kept)),
    "gap": (GOAL_GAP_MS, "ms, the worst gap", lambda pace: max(pace.gaps_ms)),
    "health": (GOAL_HEALTH_MS, "ms, p99 of /healthz", lambda pace: pace.health_p99_ms),
}
CASES = [
    Case(
        f"fair.{beside}.{name}",
        "unfair neighbours",
        neighbours.title,
        limit,
        unit,
        functools.partial(_worst, figure, beside),
    )
    for beside, neighbours in NEIGHBOURS.items()
    if beside != "alone"
    for name, (limit, unit, figure) in FIGURES.items()
]
