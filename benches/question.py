"""Shared by the benchmarks of Torvyn alone: whether they can run, and where the report goes."""

from __future__ import annotations

import sys

from benches.peers import distribution_version, torvyn_missing
from benches.report import Report


def cannot_run() -> bool:
    """Print the reason to stderr and return True if Torvyn's runtime is missing."""
    reason = torvyn_missing()
    if reason is not None:
        print(f"nothing to run: {reason}", file=sys.stderr)
    return reason is not None


def publish(report: Report, as_json: bool) -> None:
    """Write the report next to the others and print it."""
    report.versions.setdefault("torvyn", f"torvyn {distribution_version('torvyn')}")
    page, _data = report.write()
    print(report.json() if as_json else report.markdown(), end="")
    print(f"  written to {page}", file=sys.stderr)


def say(text: str) -> None:
    print(f"  {text}", file=sys.stderr, flush=True)
