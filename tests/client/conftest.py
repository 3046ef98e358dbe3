"""Runs coroutines as tests, and makes the test servers of `tests/transport` importable."""

from __future__ import annotations

import pytest

from coroutines import pytest_pyfunc_call  # noqa: F401


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retries without delays, and without a key from the environment."""
    for name in ("FIRST_RETRY_DELAY_S", "FIRST_RESUME_DELAY_S"):
        monkeypatch.setattr(f"torvyn.client.retry_policy.{name}", 0.0)
    monkeypatch.delenv("TORVYN_KEY", raising=False)
