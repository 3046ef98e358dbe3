"""The page that lists what goes wrong at the edge names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/concepts/edge-faults.md").read_text()
NAMED = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)


@pytest.mark.parametrize(("file", "name"), NAMED, ids=[name for _, name in NAMED])
def test_a_named_test_exists(file: str, name: str) -> None:
    assert f"def {name}(" in (ROOT / file).read_text()


def test_the_page_lists_ten_problems() -> None:
    assert PAGE.count("| `tests/") == 10
