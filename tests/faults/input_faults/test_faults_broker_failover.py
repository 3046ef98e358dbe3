"""One server of a broker that has three is lost while elements move: the others carry them."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest
from broker_failover import fail_over

ADDED_S = 5.0
"""Far below what it took when a silent consumer was waited for, and above what a busy machine does.
`make reliability` has the figures."""


@pytest.mark.full
@pytest.mark.parametrize(
    ("victim", "how", "has_state"),
    product(("other", "leader"), ("kill", "freeze", "stop"), (False, True)),
)
def test_a_lost_server_of_the_broker_changes_nothing(
    tmp_path: Path, victim: str, how: str, has_state: bool
) -> None:
    found = fail_over(tmp_path, victim, how, has_state=has_state)
    assert found.wrong == 0
    assert found.added_s < ADDED_S
