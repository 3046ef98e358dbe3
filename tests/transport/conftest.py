"""Coroutines as tests: each runs on a loop of its own. A browser for those that need one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from keyed import Keyed

from coroutines import pytest_pyfunc_call  # noqa: F401


@pytest.fixture(scope="module")
def browser() -> Any:
    """Chromium. While it is open, no coroutine can be a test in this thread."""
    from browsing import chromium

    with chromium() as opened:
        yield opened


@pytest.fixture
def page(browser: Any) -> Any:
    from browsing import window

    with window(browser) as opened:
        yield opened


@pytest.fixture
def keyed(tmp_path: Path) -> Keyed:
    return Keyed(tmp_path)
