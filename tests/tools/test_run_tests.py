"""`tools/run_tests.py`: the last line of `make test`."""

from __future__ import annotations

from pathlib import Path

import pytest
from run_tests import Tally, counts, python_tally, run_python, rust_tally, verdict

RUST_OUTPUT = """
running 12 tests
............
test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s
test result: ok. 800 passed; 0 failed; 0 ignored; 0 measured; 3 filtered out; finished in 1.20s
"""


def test_results_of_all_crates_are_added():
    assert rust_tally(RUST_OUTPUT, 0) == Tally(passed=812, failed=0, skipped=1)


@pytest.mark.parametrize(
    ("rust", "python", "line"),
    [
        (
            Tally(812),
            Tally(4994, skipped=53),
            "All tests passed: 812 Rust, 4,994 Python, 53 skipped (the reasons are above); "
            "1 min 1 s",
        ),
        (Tally(812), Tally(4994), "All tests passed: 812 Rust, 4,994 Python; 1 min 1 s"),
        (
            Tally(812),
            Tally(4990, failed=4, code=1),
            "Tests FAILED: 4 of 4,994 Python tests (see above); 1 min 1 s",
        ),
        (
            Tally(811, failed=1, code=101),
            None,
            "Tests FAILED: 1 of 812 Rust tests (see above); Python tests were not run; 1 min 1 s",
        ),
        (
            Tally(code=101),
            None,
            "Tests FAILED: the Rust tests did not finish (exit code 101; see above); "
            "Python tests were not run; 1 min 1 s",
        ),
        (
            Tally(812),
            Tally(code=4),
            "Tests FAILED: the Python tests did not finish (exit code 4; see above); 1 min 1 s",
        ),
    ],
)
def test_the_last_line_reports_the_result(rust: Tally, python: Tally | None, line: str):
    assert verdict(rust, python, 61.0) == line


def test_python_results_come_from_the_report_of_pytest(tmp_path: Path):
    (tmp_path / "test_few.py").write_text(
        "import pytest\n"
        "def test_passes(): pass\n"
        "def test_fails(): assert False\n"
        "@pytest.mark.skip\n"
        "def test_is_skipped(): pass\n"
        "def test_has_no_fixture(absent): pass\n"
    )

    tally = run_python([str(tmp_path), "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path)])

    assert tally == Tally(passed=1, failed=2, skipped=1, code=1)


def test_a_report_that_is_missing_or_broken_counts_nothing(tmp_path: Path):
    (tmp_path / "broken.xml").write_text("<testsuites>")

    assert python_tally(tmp_path / "absent.xml", 3) == Tally(code=3)
    assert python_tally(tmp_path / "broken.xml", 3) == Tally(code=3)


def test_the_line_for_programs_has_plain_numbers():
    assert counts(Tally(12345, 0, 6)) == "12345 passed, 0 failed, 6 skipped"
