"""A part of the cluster is killed: the output is that of one process, nothing is lost.

Few rounds of what `python -m benches.reliability --only cluster` measures.
"""

from __future__ import annotations

from collections.abc import Iterator

import missing
import pytest
from benches.cluster import scenarios
from benches.cluster.machines import Machines, machines
from benches.cluster.machines import missing as lacking

pytestmark = pytest.mark.timeout(240)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    if lacking() is not None:
        missing.skip("ray")
    with machines(tmp_path_factory.mktemp("broker")) as started:
        yield started


@pytest.mark.parametrize("seed", [1])
@pytest.mark.parametrize("part", scenarios.PARTS)
def test_the_output_is_that_of_one_process(cluster: Machines, part: str, seed: int) -> None:
    killed = scenarios.kill(cluster, part, seed, count=800)

    assert (killed.lost, killed.wrong) == (0, 0)
