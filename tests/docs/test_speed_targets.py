"""The stored results of `benches.latency` meet the documented targets: no test times anything."""

from __future__ import annotations

import json
import statistics
from typing import Any

import pytest
from benches.report import RESULTS

KINDS = ("python", "native")
PACES = ("paced", "paced_awake", "saturated")


@pytest.fixture
def latency() -> Any:
    return json.loads((RESULTS / "latency.json").read_text())["data"]


@pytest.mark.promise("tokens.filter-cost")
@pytest.mark.parametrize("kind", KINDS)
def test_a_filter_takes_less_than_10_us_per_token(latency: Any, kind: str) -> None:
    rounds = latency[f"filter_{kind}"]

    added_us = [
        after - before
        for before, after in zip(rounds["without_us"], rounds["with_us"], strict=True)
    ]
    assert 0 < statistics.median(added_us) < 10


@pytest.mark.promise("tokens.sentence-latency")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("pace", PACES)
def test_a_sentence_is_delivered_within_200_us_of_its_last_token(
    latency: Any, kind: str, pace: str
) -> None:
    waits = latency[f"emission_{kind}_{pace}"]

    assert 0 < waits["p50_us"] <= waits["p99_us"] < 200
