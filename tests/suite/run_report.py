"""What a run says at its end: what was not tested and how to add it, and which tests took longest.

A test may take `LIMIT_S` on a quiet machine. A run that has several workers for each core allows it
as much more. It names those that take longer, but does not fail: a slow machine is no fault of a
test. `--full` names none.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final

import pytest
from run_plan import PASSED

LIMIT_S: Final = 5.0
SHOWN: Final = 10
WHOLE_SUITE: Final = 5000
"""A run with fewer tests is of somebody who tries something, and is not judged."""


def missing_things(reasons: Iterable[str]) -> list[str]:
    """One line for each reason, those first that keep most tests from running."""
    counts = Counter(reason.removeprefix("Skipped: ") for reason in reasons)
    return [f"{count:5} {reason}" for reason, count in counts.most_common()]


def slowest(took_s: Mapping[str, float], count: int = SHOWN) -> list[tuple[str, float]]:
    return sorted(took_s.items(), key=lambda each: -each[1])[:count]


def too_slow(took_s: Mapping[str, float], workers: int, cores: int) -> list[str]:
    limit_s = LIMIT_S * max(1.0, workers / cores)
    return [
        f"{name} took {seconds:.1f} s instead of at most {limit_s:.1f}: make it wait for "
        "an event, share what it starts, or give it a sample (tests/suite/scale.py)"
        for name, seconds in slowest(took_s, len(took_s))
        if seconds > limit_s
    ]


class RunReport:
    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._cores = len(os.sched_getaffinity(0))
        self._took_s: dict[str, float] = defaultdict(float)
        self._passed: set[str] = set()
        self._too_slow: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._took_s[report.nodeid] += report.duration
        if report.when == "call" and report.passed:
            self._passed.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        if len(self._took_s) < WHOLE_SUITE or self._config.getoption("--full"):
            return
        self._config.cache.set(PASSED, sorted(self._passed))  # type: ignore[union-attr]
        workers = self._config.getoption("numprocesses", None) or 1
        self._too_slow = too_slow(self._took_s, workers, self._cores)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        skipped = [_reason(each) for each in terminalreporter.stats.get("skipped", [])]
        if skipped:
            terminalreporter.section("not tested")
            for line in missing_things(skipped):
                terminalreporter.line(line)
        if len(self._took_s) > SHOWN:
            terminalreporter.section(f"the {SHOWN} slowest tests")
            for name, seconds in slowest(self._took_s):
                terminalreporter.line(f"{seconds:6.1f} s {name}")
        for line in self._too_slow:
            terminalreporter.line(f"TOO SLOW {line}", red=True)


def _reason(report: pytest.TestReport) -> str:
    return report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)


def pytest_configure(config: pytest.Config) -> None:
    # Workers of xdist report to the process that started them.
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(RunReport(config), "run-report")
