"""A sandboxed component with `snapshot` and `restore` continues where the last run was."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from test_states import FileNumbers, stop_and_go

from torvyn._sandbox.build import build
from torvyn._sandbox.component import GuestLimits, guest_class
from torvyn._sandbox.project import GuestProject

COUNTING = Path(__file__).parents[1] / "sandbox" / "c" / "counting"

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def counting(tmp_path: Path) -> Any:
    """Makes guests that append the number of elements that they have seen."""
    folder = tmp_path / "counting"
    shutil.copytree(COUNTING, folder)
    path = build(GuestProject("counting", folder, "c")).path
    kind = guest_class(path, "counting", tmp_path)

    def make() -> Any:
        component: Any = kind()
        component.set_limits(GuestLimits("counting", max_memory_bytes=1 << 20))
        return component

    return make


@pytest.mark.parametrize("carrier", ["memory", "disk"])
def test_a_guest_continues_with_its_count(counting: Any, carrier: str) -> None:
    def make() -> Any:
        return FileNumbers(3000), counting()

    texts = stop_and_go(make, 3, first=10, more=50, carrier=carrier)
    assert texts == [f"{number}{number + 1}" for number in range(3000)]
