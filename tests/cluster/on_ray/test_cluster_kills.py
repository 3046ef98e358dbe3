"""A part of the cluster is killed: the output is that of one process, nothing is lost.

Few rounds of what `python -m benches.reliability --only cluster` measures.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from benches.cluster import scenarios
from benches.cluster.machines import Machines, machines, missing

pytestmark = pytest.mark.timeout(240)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    reason = missing()
    if reason is not None:
        pytest.skip(f"NOT TESTED: kills of a cluster, which {reason}")
    with machines(tmp_path_factory.mktemp("broker")) as started:
        yield started


@pytest.mark.parametrize("seed", [1])
@pytest.mark.parametrize("part", scenarios.PARTS)
def test_the_output_is_that_of_one_process(cluster: Machines, part: str, seed: int) -> None:
    killed = scenarios.kill(cluster, part, seed, count=800)

    assert (killed.lost, killed.wrong) == (0, 0)
