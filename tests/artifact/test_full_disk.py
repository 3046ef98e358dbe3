"""A disk that takes nothing more: commands say so, and leave no parts of files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from projects import content, make_project, pack_project

from torvyn._artifact.layout import Layout


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


@pytest.mark.parametrize("blocks", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("is_new", [True, False])
def test_a_pack_that_fails_leaves_the_layout_as_it_was(
    tmp_path: Path, blocks: int, is_new: bool
) -> None:
    project = make_project(tmp_path / "project")
    (project / "components" / "enrich" / "table.csv").write_bytes(b"x" * (16 * 512 + 1))
    before = {} if is_new else content(pack_project(project, output=project / "new").layout)
    files = {path for path in project.rglob("*") if "build" not in path.parts}

    done = run_limited(blocks, project, "pack", "--output", "new", "--tag", "2")

    assert done.returncode == 3
    assert {path for path in project.rglob("*") if "build" not in path.parts} == files
    assert (project / "new").exists() is not is_new
    if not is_new:
        assert content(Layout(project / "new")) == before
