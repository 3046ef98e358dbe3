"""The confidence interval that decides a comparison: its coverage, and when it cannot tell."""

from __future__ import annotations

import math
import random
from itertools import combinations

import pytest

from torvyn._cli.bench_comparison import _rank_sums, compare, shift_interval

CHANGED_BY = math.log(0.7)
"""Throughput 30 % lower."""


def rounds(chance: random.Random, shift: float = 0.0, spread: float = 0.05) -> list[float]:
    """Twenty logarithms of rates, one in ten of them disturbed."""
    return [
        shift + chance.gauss(0.0, spread) - (chance.random() < 0.1) * chance.expovariate(2.0)
        for _ in range(20)
    ]


@pytest.mark.parametrize(("first", "second"), [(3, 4), (5, 5), (2, 6), (1, 1)])
def test_rank_sums_are_counted_over_all_orders(first: int, second: int) -> None:
    counted = [0] * (first * second + 1)
    for places in combinations(range(first + second), first):
        counted[sum(place - rank for rank, place in enumerate(places))] += 1

    assert _rank_sums(first, second) == counted


def test_the_interval_covers_the_shift_as_often_as_it_says() -> None:
    chance = random.Random(1)
    intervals = [shift_interval(rounds(chance), rounds(chance)) for _ in range(1000)]

    # 1 % on either side is allowed; this seed has fewer.
    assert sum(not lowest <= 0.0 <= highest for lowest, _, highest in intervals) <= 20


def test_a_large_shift_is_found() -> None:
    chance = random.Random(2)
    intervals = [shift_interval(rounds(chance), rounds(chance, CHANGED_BY)) for _ in range(200)]

    assert sum(highest < math.log(0.9) for _, _, highest in intervals) >= 190


@pytest.mark.parametrize(("before", "now"), [(1, 100), (2, 5), (4, 4)])
def test_too_few_rounds_give_an_unbounded_interval(before: int, now: int) -> None:
    lowest, estimate, highest = shift_interval([0.0] * before, [1.0] * now)

    assert (lowest, estimate, highest) == (-math.inf, 1.0, math.inf)


def result(rates: list[float], speeds: list[float]) -> dict[str, object]:
    """A result with these rates, on a machine with these reference rates."""
    timed = [
        {"produced": 1000, "elapsed_s": 1000 / (rate * speed)}
        for rate, speed in zip(rates, speeds, strict=True)
    ]
    reference = [speeds[0], *speeds]
    return {
        "rounds": timed,
        "reference": reference,
        "throughput": {"median": 1.0},
        "components": {},
    }


def test_a_machine_at_half_speed_does_not_change_the_flow() -> None:
    rates = [100.0 + number % 3 for number in range(10)]

    compared = compare(result(rates, [0.5] * 10), result(rates, [1.0] * 10), 10.0)

    assert compared["verdict"] == "not-slower"
    assert abs(compared["throughput_change"]) < 1.0


@pytest.mark.parametrize(
    ("factor", "verdict"), [(1.0, "not-slower"), (0.9, "cannot-tell"), (0.7, "slower")]
)
def test_changes_on_either_side_of_the_threshold_are_distinguished(
    factor: float, verdict: str
) -> None:
    rates = [100.0 + number % 3 for number in range(10)]
    now = [factor * rate for rate in rates]

    compared = compare(result(now, [1.0] * 10), result(rates, [1.0] * 10), 10.0)

    assert compared["verdict"] == verdict
