"""Puts the helper modules of this folder on the path of the tests below it."""

from __future__ import annotations

import pytest
from observed_engines import note_background_tasks


@pytest.fixture(autouse=True)
def only_own_tasks() -> None:
    """Tests of other components may leave tasks on the loop that all tests share."""
    note_background_tasks()
