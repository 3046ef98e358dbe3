"""A server is killed in the middle of answers: nothing that a client saw is lost or doubled."""

from __future__ import annotations

from pathlib import Path

import pytest
from killed_servers import EXPECTED, killed_and_resumed


@pytest.mark.promise("inference.resume-after-kill")
@pytest.mark.parametrize("seed", range(3))
def test_a_resumed_answer_is_the_one_that_was_not_interrupted(tmp_path: Path, seed: int) -> None:
    told, _ = killed_and_resumed(tmp_path, seed)
    assert told.text == EXPECTED
    assert (told.lost, told.doubles) == (0, 0)
    assert told.is_over
