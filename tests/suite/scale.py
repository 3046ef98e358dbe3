"""How much of what is slow by nature a run tries: a sample (`make test`), or all (`make test-all`).

    KILLS = sample(3, full=200)            a count, a range, a list of cases: whatever a test needs
    @pytest.mark.full                      only `--full` runs it; a test beside it has the sample

A sample is the same in every run, so that a failure comes again.
"""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")
_is_full: bool | None = None


def choose(*, is_full: bool) -> None:
    """What `run_plan.py` says before any test is loaded."""
    global _is_full
    _is_full = is_full


def sample(quick: T, *, full: T) -> T:
    assert _is_full is not None, "pytest has not been configured"
    return full if _is_full else quick
