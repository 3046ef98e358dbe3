"""A browser for the tests of the chat page."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture(scope="module")
def browser() -> Any:
    """Chromium. While it is open, no coroutine can be a test in this thread."""
    from browser_page import chromium

    with chromium() as opened:
        yield opened


@pytest.fixture
def page(browser: Any) -> Any:
    from browser_page import window

    with window(browser) as opened:
        yield opened
