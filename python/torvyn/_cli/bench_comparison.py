"""Compares a benchmark result with an earlier one: has the flow become slower?

The machine may have been faster at one time than at the other. So each round is compared by its
relative rate: the flow's rate divided by that of the reference work around it. A confidence
interval decides (Hodges-Lehmann, from Mann-Whitney); if the threshold is inside the interval, the
verdict is `cannot-tell`. It uses only ranks, so one disturbed round changes it little, and it
assumes nothing about the distribution of times.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from itertools import pairwise, product
from pathlib import Path
from statistics import median
from typing import Any, ClassVar, Final, Literal, NamedTuple

from torvyn.errors import MissingError, TorvynError, UsageError, os_reason

Verdict = Literal["slower", "not-slower", "cannot-tell"]
PROCESS_SPREAD: Final = 0.04
"""How much two processes that run the same flow differ, because of memory layout and hash seeds.
More rounds in one process do not show this, so the interval is widened by it."""


class RegressionError(TorvynError):
    """The flow is slower than the threshold allows."""

    exit_code: ClassVar[int] = 3


def read_result(path: str, flow: str) -> dict[str, Any]:
    """An earlier result of the same flow."""
    hint = "create one with `torvyn bench --format json`"
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = os_reason(error)
        message = f"cannot read {path}: {reason.lower()}"
        raise MissingError("cli.baseline-unreadable", message, hint=hint) from error
    try:
        result: dict[str, Any] = json.loads(text)
        is_valid = float(result["throughput"]["median"]) > 0 and result["components"] is not None
        relative_rates(result)
    except (ValueError, KeyError, TypeError, ZeroDivisionError):
        is_valid = False
    if not is_valid:
        message = f"{path} is not a benchmark result"
        raise UsageError("cli.baseline-unusable", message, hint=hint)
    if result.get("flow") != flow:
        message = f"{path} is a result of flow `{result.get('flow')}`, not of `{flow}`"
        raise UsageError("cli.baseline-unusable", message)
    return result


def compare(result: dict[str, Any], before: dict[str, Any], threshold: float) -> dict[str, Any]:
    """The changes in percent. Only throughput decides, because single calls are too short."""
    lowest, change, highest = _change(relative_rates(before), relative_rates(result))
    components = {}
    for name, now in result["components"].items():
        old = before["components"].get(name)
        if isinstance(old, dict) and old.get("p50_ns"):
            components[name] = {"p50_change": 100.0 * (now["p50_ns"] / old["p50_ns"] - 1.0)}
    return {
        "throughput_before": before["throughput"]["median"],
        "throughput_change": change,
        # JSON has no infinity: null if there were too few rounds for an interval.
        "throughput_change_lowest": lowest if math.isfinite(highest) else None,
        "throughput_change_highest": highest if math.isfinite(highest) else None,
        "threshold": threshold,
        "verdict": _verdict(lowest, highest, threshold),
        "components": components,
    }


def relative_rates(result: dict[str, Any]) -> list[float]:
    """The rate of each round, divided by that of the reference work before and after it."""
    reference = [float(rate) for rate in result["reference"]]
    around = [math.sqrt(left * right) for left, right in pairwise(reference)]
    rates = [one["produced"] / one["elapsed_s"] for one in result["rounds"]]
    return [rate / speed for rate, speed in zip(rates, around, strict=True)]


def _change(before: Sequence[float], now: Sequence[float]) -> Interval:
    """The change in percent, computed with logarithms because it is a ratio."""
    logs = [[math.log(rate) for rate in rates] for rates in (before, now)]
    lowest, estimate, highest = shift_interval(*logs)
    wider = (lowest - PROCESS_SPREAD, estimate, highest + PROCESS_SPREAD)
    return Interval(*(100.0 * math.expm1(shift) for shift in wider))


def _verdict(lowest: float, highest: float, threshold: float) -> Verdict:
    if lowest >= -threshold:
        return "not-slower"
    return "slower" if highest < -threshold else "cannot-tell"


def more_rounds(result: dict[str, Any]) -> str:
    """The hint for `cannot-tell`."""
    count = 4 * len(result["rounds"])
    return f"measure both with more rounds (`--rounds {count}`), or on an idle machine"


def raise_if_regressed(comparison: dict[str, Any], path: str) -> None:
    if comparison["verdict"] == "slower":
        slower, allowed = -comparison["throughput_change"], comparison["threshold"]
        raise RegressionError(
            "cli.regressed",
            f"the throughput is {slower:.1f} % lower than in {path}; {allowed:g} % is allowed",
            hint="compare the components' call times in the report",
        )


_BLOCKS: Final = 10
_ERROR: Final = 0.01
"""The probability that the true shift is above the interval, and likewise below."""


class Interval(NamedTuple):
    lowest: float
    estimate: float
    highest: float


def shift_interval(before: Sequence[float], now: Sequence[float]) -> Interval:
    """How far `now` is above `before`; unbounded if there are too few values.

    Consecutive values are correlated, so each sample is cut into at most ten blocks, and the
    medians of the blocks are compared.
    """
    old, new = _block_medians(before), _block_medians(now)
    shifts = sorted(b - a for a, b in product(old, new))
    skip = _values_outside(len(old), len(new))
    if skip == 0:
        return Interval(-math.inf, median(shifts), math.inf)
    return Interval(shifts[skip - 1], median(shifts), shifts[-skip])


def _block_medians(values: Sequence[float]) -> list[float]:
    blocks = min(_BLOCKS, len(values))
    edges = [len(values) * number // blocks for number in range(blocks + 1)]
    return [median(values[begin:end]) for begin, end in pairwise(edges)]


def _values_outside(first: int, second: int) -> int:
    """The largest k with P(U < k) <= `_ERROR`; U is the Mann-Whitney statistic of equal samples."""
    ways = _rank_sums(first, second)
    limit = _ERROR * math.comb(first + second, first)
    outside, below = 0, 0
    for number in ways:
        below += number
        if below > limit:
            break
        outside += 1
    return outside


def _rank_sums(first: int, second: int) -> list[int]:
    """In how many orders of both samples U is 0, 1, 2 ...: the Gaussian binomial coefficients."""
    ways = [1] + [0] * (first * second)
    for step in range(1, first + 1):
        for u in range(first * second, second + step - 1, -1):
            ways[u] -= ways[u - second - step]
        for u in range(step, first * second + 1):
            ways[u] += ways[u - step]
    return ways
