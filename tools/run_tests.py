"""Runs the whole test suite and ends with lines that sum it up.

    python tools/run_tests.py                  Rust tests, then Python tests
    python tools/run_tests.py --full           with the model checks (loom), and all in full
    python tools/run_tests.py --full --rest    only what a run without `--full` left out
    python tools/run_tests.py --no-rust        only Python tests
    python tools/run_tests.py --compile        compile the Rust tests, and nothing else

It stops at the first step that fails. Each step has a line with its time. Other arguments go to
pytest.
"""

from __future__ import annotations

import compileall
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

from progress import elapsed, run

# There are no examples in the documentation of the crates, which would be compiled one by one.
RUST: Final = ["cargo", "test", "--release", "--workspace", "--lib", "--bins", "--tests"]
LOOM: Final = ["cargo", "test", "--release", "-p", "torvyn-reactor", "--lib"]
ROOT: Final = Path(__file__).parents[1]
SHARED_GUEST: Final = ROOT / "tests" / "suite" / "shared_guest.py"
NO_RUST: Final = "--no-rust"
COMPILE: Final = "--compile"
_RUST_RESULT: Final = re.compile(r"test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored")


@dataclass(frozen=True)
class Tally:
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    code: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            self.passed + other.passed,
            self.failed + other.failed,
            self.skipped + other.skipped,
            self.code or other.code,
        )


def rust_tally(output: str, code: int) -> Tally:
    counts = [tuple(map(int, found)) for found in _RUST_RESULT.findall(output)]
    return sum((Tally(*each) for each in counts), Tally(code=code))


def python_tally(report: Path, code: int) -> Tally:
    """Reads pytest's report; without one, pytest did not finish."""
    try:
        suite = ElementTree.parse(report).getroot().find("testsuite")
    except (OSError, ElementTree.ParseError):
        suite = None
    if suite is None:
        return Tally(code=code)
    total, errors, failures, skipped = (
        int(suite.attrib[name]) for name in ("tests", "errors", "failures", "skipped")
    )
    return Tally(total - errors - failures - skipped, errors + failures, skipped, code)


def verdict(rust: Tally, python: Tally | None, took_s: float) -> str:
    took = elapsed(took_s)
    if rust.code:
        return f"Tests FAILED: {_failures(rust, 'Rust')}; Python tests were not run; {took}"
    assert python is not None
    if python.code:
        return f"Tests FAILED: {_failures(python, 'Python')}; {took}"
    skipped = rust.skipped + python.skipped
    why = f", {skipped:,} skipped (the reasons are above)" if skipped else ""
    return f"All tests passed: {rust.passed:,} Rust, {python.passed:,} Python{why}; {took}"


def counts(tally: Tally) -> str:
    """The last line, for programs."""
    return f"{tally.passed} passed, {tally.failed} failed, {tally.skipped} skipped"


def _failures(tally: Tally, language: str) -> str:
    if not tally.failed:
        return f"the {language} tests did not finish (exit code {tally.code}; see above)"
    total = tally.passed + tally.failed
    return f"{tally.failed:,} of {total:,} {language} tests (see above)"


def run_rust(label: str, command: Sequence[str], name: str = "", **variables: str) -> Tally:
    """Compiles with progress, then runs the tests whose name contains `name`."""
    if code := run(f"Compiling {label}", [*command, "--no-run"], variables):
        return Tally(code=code)
    begin_s = time.monotonic()
    test = [*command, "--quiet", *([name] if name else [])]
    done = subprocess.run(
        test, env={**os.environ, **variables}, capture_output=True, text=True, check=False
    )
    tally = rust_tally(done.stdout, done.returncode)
    if done.returncode:
        print(done.stdout, done.stderr, sep="\n", file=sys.stderr)
    report(f"Running {label}", tally, begin_s)
    return tally


def run_all_rust(arguments: Sequence[str]) -> Tally:
    rust = Tally() if "--rest" in arguments else run_rust("the Rust tests", RUST)
    if not rust.code and "--full" in arguments:
        target = os.environ.get("CARGO_TARGET_DIR", "target")
        loom = {"RUSTFLAGS": "--cfg loom", "CARGO_TARGET_DIR": f"{target}/loom"}
        rust += run_rust("the model checks", LOOM, "loom", **loom)
    return rust


def run_all_python(arguments: Sequence[str]) -> Tally:
    # Once, not in each of the thousands of processes that tests start.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    # What somebody likes to have in other projects may be something else here.
    os.environ.pop("PYTEST_ADDOPTS", None)
    compileall.compile_dir(ROOT / "python", quiet=1)
    if code := run("Compiling the guest that tests share", [sys.executable, str(SHARED_GUEST)]):
        return Tally(code=code)
    return run_python(["-n", "auto", *arguments])


def report(step: str, tally: Tally, begin_s: float) -> None:
    took = elapsed(time.monotonic() - begin_s)
    print(f"{step}: {counts(tally)} after {took}", file=sys.stderr, flush=True)


def run_python(arguments: Sequence[str]) -> Tally:
    begin_s = time.monotonic()
    print("Running the Python tests", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "results.xml"
        command = [sys.executable, "-m", "pytest", "-q", f"--junitxml={results}", *arguments]
        tally = python_tally(results, subprocess.run(command, check=False).returncode)
    report("Running the Python tests", tally, begin_s)
    return tally


def main(arguments: Sequence[str]) -> int:
    if COMPILE in arguments:
        return run("Compiling the native module and its tests", [*RUST, "--no-run"])
    begin_s = time.monotonic()
    for_python = [argument for argument in arguments if argument != NO_RUST]
    rust = Tally() if NO_RUST in arguments else run_all_rust(arguments)
    python = None if rust.code else run_all_python(for_python)
    print(verdict(rust, python, time.monotonic() - begin_s))
    print(counts(rust + (python or Tally())), flush=True)
    return rust.code or (0 if python is None else python.code)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        print("Tests were interrupted.")
        sys.exit(130)
