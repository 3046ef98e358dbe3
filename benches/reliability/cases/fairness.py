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
SERVERS = {"": "Torvyn", "-gateway": "Torvyn as a gateway"}


@functools.cache
def _rounds(server: str, beside: str, rounds: int) -> list[Pace]:
    return [one_round(server, beside) for _ in range(rounds)]


def _worst(figure: Figure, server: str, beside: str, rounds: int) -> Measurement:
    """Of all rounds."""
    samples = [figure(each) for each in _rounds(server, beside, rounds)]
    detail = f"{PACED} streams of {RATE:g} tokens per second; {server}"
    return Measurement(max(samples), samples, detail)


FIGURES: dict[str, tuple[float, str, Figure]] = {
    "late": (100 * (1 - GOAL_KEPT), "% of the tokens late", lambda pace: 100 * (1 - pace.kept)),
    "gap": (GOAL_GAP_MS, "ms, the worst gap", lambda pace: max(pace.gaps_ms)),
    "health": (GOAL_HEALTH_MS, "ms, p99 of /healthz", lambda pace: pace.health_p99_ms),
}
CASES = [
    Case(
        f"fair{kind}.{beside}.{name}",
        "unfair neighbours",
        neighbours.title,
        round(limit, 3),
        unit,
        functools.partial(_worst, figure, server, beside),
    )
    for kind, server in SERVERS.items()
    for beside, neighbours in NEIGHBOURS.items()
    if beside != "alone"
    for name, (limit, unit, figure) in FIGURES.items()
]
