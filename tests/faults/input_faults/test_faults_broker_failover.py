"""One server of a broker that has three is lost while elements move: the others carry them."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest
from broker_failover import fail_over

ADDED_S = 10.0
"""Below what it took when a silent consumer (15 s) or a frozen connection (40 s) was waited for,
and above what it takes on a machine with four times the work that it can do. The figures are those
of `make reliability`."""


@pytest.mark.full
@pytest.mark.parametrize(
    ("victim", "how", "has_state"),
    [*product(("other", "leader"), ("kill", "freeze", "stop"), (False, True))],
)
def test_a_lost_server_of_the_broker_changes_nothing(
    tmp_path: Path, victim: str, how: str, has_state: bool
) -> None:
    found = fail_over(tmp_path, victim, how, has_state=has_state)
    assert found.wrong == 0
    assert found.added_s < ADDED_S
