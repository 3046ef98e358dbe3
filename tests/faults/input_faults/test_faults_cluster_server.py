"""One of several servers is killed while a client reads: another one continues."""

from __future__ import annotations

from pathlib import Path

from cluster_servers import kills


def test_nothing_is_lost_or_repeated_when_one_of_several_servers_is_killed(tmp_path: Path) -> None:
    assert [wrong for wrong, *_ in kills(tmp_path, 3)] == [0, 0, 0]
