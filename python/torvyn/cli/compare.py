"""Benchmarks compared: a result with an earlier one, and whether it has become worse."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar

from torvyn.errors import MissingError, TorvynError, UsageError


class RegressionError(TorvynError):
    """The flow has become slower than it may."""

    exit_code: ClassVar[int] = 3


def read_result(path: str, flow: str) -> dict[str, Any]:
    """An earlier result of the same flow."""
    hint = "it is what `torvyn bench --format json` prints"
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        message = f"cannot read {path}: {reason.lower()}"
        raise MissingError("cli.baseline-unreadable", message, hint=hint) from error
    try:
        result: dict[str, Any] = json.loads(text)
        known = float(result["throughput"]["median"]) > 0 and result["components"] is not None
    except (ValueError, KeyError, TypeError):
        known = False
    if not known:
        message = f"{path} is not the result of a benchmark"
        raise UsageError("cli.baseline-unusable", message, hint=hint)
    if result.get("flow") != flow:
        message = f"{path} is about flow `{result.get('flow')}`, not `{flow}`"
        raise UsageError("cli.baseline-unusable", message)
    return result


def compare(result: dict[str, Any], before: dict[str, Any], threshold: float) -> dict[str, Any]:
    """The changes in per cent. Throughput alone decides: single calls are too short for that."""
    rate, rate_before = result["throughput"]["median"], before["throughput"]["median"]
    change = 100.0 * (rate / rate_before - 1.0)
    components = {}
    for name, now in result["components"].items():
        old = before["components"].get(name)
        if isinstance(old, dict) and old.get("p50_ns"):
            components[name] = {"p50_change": 100.0 * (now["p50_ns"] / old["p50_ns"] - 1.0)}
    return {
        "throughput_before": rate_before,
        "throughput_change": change,
        "threshold": threshold,
        "regressed": change < -threshold,
        "components": components,
    }


def raise_if_regressed(comparison: dict[str, Any], path: str) -> None:
    if comparison["regressed"]:
        slower, allowed = -comparison["throughput_change"], comparison["threshold"]
        raise RegressionError(
            "cli.regressed",
            f"the throughput is {slower:.1f} % lower than in {path}; {allowed:g} % are allowed",
            hint="measure again on a quiet machine before you believe it",
        )
