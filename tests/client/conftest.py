"""Coroutines as tests, as those of the transport have them; and their real server."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from coroutines import pytest_pyfunc_call  # noqa: F401

sys.path += [str(Path(__file__).parents[1] / room) for room in ("transport", "cli")]

pytest.importorskip("aiohttp", reason='clients are not tested: pip install "torvyn[client]"')


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trying again costs no time, and nobody's key is used."""
    for name in ("RETRY_PAUSE_S", "RESUME_PAUSE_S"):
        monkeypatch.setattr(f"torvyn.client.retry_policy.{name}", 0.0)
    monkeypatch.delenv("TORVYN_KEY", raising=False)
