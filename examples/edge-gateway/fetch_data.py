"""Writes `data/shuttle.csv`: the Shuttle dataset, as the package `river` ships it.

    pip install --no-deps river
    python fetch_data.py [ROWS]

The data are readings of nine sensors of a NASA space shuttle, with one label per row. Source:
Statlog (Shuttle), UCI Machine Learning Repository, https://archive.ics.uci.edu/dataset/148, as an
anomaly detection problem after ODDS. `river` is licensed BSD-3-Clause.
"""

from __future__ import annotations

import gzip
import importlib.util
import itertools
import sys
from pathlib import Path

TARGET = Path(__file__).parent / "data" / "shuttle.csv"


def packaged_file() -> Path:
    """The file in the package, which is not imported: that would need its dependencies."""
    spec = importlib.util.find_spec("river")
    if spec is None or spec.origin is None:
        raise SystemExit("the package `river` is not installed: pip install --no-deps river")
    return Path(spec.origin).parent / "datasets" / "shuttle.csv.gz"


def write_rows(target: Path, rows: int | None) -> int:
    """Writes the header and at most `rows` rows; returns the number of rows."""
    with gzip.open(packaged_file(), "rt", encoding="ascii") as lines:
        wanted = list(itertools.islice(lines, None if rows is None else rows + 1))
    target.write_text("".join(wanted), encoding="ascii")
    return len(wanted) - 1


if __name__ == "__main__":
    limit = int(sys.argv[1]) if len(sys.argv) > 1 else None
    print(f"{TARGET.relative_to(TARGET.parents[1])}: {write_rows(TARGET, limit)} readings")
