"""A disk that takes nothing more: commands say so, and leave no parts of files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from projects import make_project


def run_limited(blocks: int, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs a command that may write no file with more than so many blocks of 512 bytes."""
    command = ["sh", "-c", f'ulimit -f {blocks}; exec "$@"', "sh", sys.executable, "-m", "torvyn"]
    return subprocess.run(
        [*command, *arguments], cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize(
    ("blocks", "arguments", "code"),
    [
        (1, ["pack", "--output", "new"], "artifact.unwritable"),
        (0, ["sign", "--generate-key", "plant.key"], "artifact.key-unwritable"),
    ],
    ids=["pack", "sign"],
)
def test_a_full_disk_is_no_bug_and_leaves_no_parts(
    tmp_path: Path, blocks: int, arguments: list[str], code: str
) -> None:
    project = make_project(tmp_path / "project")

    done = run_limited(blocks, project, *arguments)

    assert (done.returncode, done.stdout) == (3, "")
    # Before it, there may be a warning that compiled guests cannot be cached.
    assert f"error[{code}]: cannot write " in done.stderr
    parts = [*project.rglob(".new-*"), *project.rglob("plant.key*")]
    assert parts == []
