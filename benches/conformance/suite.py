"""The cases of a suite, and how they ended."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

TOOLS: Final = Path(
    os.environ.get("TORVYN_BENCH_TOOLS") or Path.home() / ".cache" / "torvyn-bench" / "tools"
)


class SuiteMissing(Exception):
    """The suite cannot run here; the message says why."""


@dataclass(frozen=True, slots=True)
class CaseResult:
    name: str
    outcome: str
    """`passed`, `failed`, `skipped`, `explained`, or the suite's own word for something between."""
    reason: str = ""

    @property
    def is_failed(self) -> bool:
        return self.outcome == "failed"


@dataclass(frozen=True, slots=True)
class SuiteResult:
    name: str
    """What was tested, for the page."""
    cases: Sequence[CaseResult]

    def count(self, outcome: str) -> int:
        return sum(case.outcome == outcome for case in self.cases)

    @property
    def exceptions(self) -> list[CaseResult]:
        """The cases that did not simply pass."""
        return [case for case in self.cases if case.outcome != "passed"]
