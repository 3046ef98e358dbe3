"""The end of a run, and what `--full` and `--rest` choose."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from run_plan import SharingSchedule, workers
from run_report import missing_things, slowest, too_slow

CONFTEST = """
import sys
sys.path[:0] = {folders!r}
pytest_plugins = ["run_plan", "run_report"]
"""
TESTS = """
import pytest, scale
from scale import sample

@pytest.mark.parametrize("number", range(sample(1, full=3)))
def test_sampled(number): pass

@pytest.mark.full
def test_long(): pass
"""
OTHERS = """
import pytest
def test_short(): pass

@pytest.mark.skip(reason="needs ray: make test-deps")
def test_absent(): pass
"""


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    conftest = CONFTEST.format(folders=[str(Path(__file__).parent)])
    (tmp_path / "conftest.py").write_text(conftest)
    (tmp_path / "test_sampled.py").write_text(TESTS)
    (tmp_path / "test_others.py").write_text(OTHERS)
    return tmp_path


def run(suite: Path, *options: str) -> str:
    command = [sys.executable, "-m", "pytest", "--rootdir", str(suite), "-q", *options]
    done = subprocess.run(command, cwd=suite, capture_output=True, text=True, check=False)
    return done.stdout


def test_a_run_has_a_sample_and_names_what_is_missing(suite: Path) -> None:
    told = run(suite)

    assert "2 passed, 1 skipped, 1 deselected" in told
    assert "1 needs ray: make test-deps" in told


def test_in_full_everything_runs(suite: Path) -> None:
    assert "5 passed, 1 skipped" in run(suite, "--full")


def test_the_rest_is_what_was_skipped_and_what_is_larger_in_full(suite: Path) -> None:
    cache = suite / ".pytest_cache" / "v" / "suite" / "passed"
    cache.parent.mkdir(parents=True)
    cache.write_text('["test_sampled.py::test_sampled[0]", "test_others.py::test_short"]')

    assert "4 passed, 1 skipped, 1 deselected" in run(suite, "--full", "--rest")


def test_a_reason_has_one_line_with_its_count() -> None:
    assert missing_things(["Skipped: b", "Skipped: a", "Skipped: a"]) == ["    2 a", "    1 b"]


def test_a_test_may_take_longer_where_workers_share_cores() -> None:
    took_s = {"quick": 1.0, "slow": 6.0, "slowest": 20.0}

    assert slowest(took_s, 1) == [("slowest", 20.0)]
    assert [line.split()[0] for line in too_slow(took_s, 1, 1)] == ["slowest", "slow"]
    assert [line.split()[0] for line in too_slow(took_s, 5, 2)] == ["slowest"]


@pytest.mark.parametrize(("cores", "count"), [(1, 3), (2, 5), (4, 9), (16, 22)])
def test_there_are_more_workers_than_cores_because_tests_wait(cores: int, count: int) -> None:
    assert workers(cores) == count


def test_a_file_or_a_shared_folder_stays_with_one_worker() -> None:
    schedule = object.__new__(SharingSchedule)

    assert schedule._split_scope("tests/a/test_b.py::test_c[x::y]") == "tests/a/test_b.py"
    assert schedule._split_scope("tests/cluster/on_ray/test_d.py::e") == "tests/cluster/on_ray/"
