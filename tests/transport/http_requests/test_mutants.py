"""Broken requests of all protocols: the server goes on, and reports no failure of its own.

`make conformance` does the same for ten minutes.
"""

from __future__ import annotations

import pytest
from benches.conformance.__main__ import mutants


@pytest.mark.parametrize("seed", [1, 2])
def test_a_server_survives_broken_requests(seed: int) -> None:
    result = mutants(seconds=3, seed=seed)
    assert len(result.cases) == 4
    assert [case for case in result.cases if case.outcome != "passed"] == []
