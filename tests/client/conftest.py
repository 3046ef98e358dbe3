"""Coroutines as tests, as those of the transport have them; and their real server."""

from __future__ import annotations

import asyncio
import inspect
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path += [str(Path(__file__).parents[1] / room) for room in ("transport", "cli")]

pytest.importorskip("aiohttp", reason='clients are not tested: pip install "torvyn[client]"')


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: Any) -> bool | None:
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    arguments = {name: pyfuncitem.funcargs[name] for name in names}
    asyncio.run(asyncio.wait_for(pyfuncitem.obj(**arguments), 30))
    return True


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trying again costs no time, and nobody's key is used."""
    for name in ("RETRY_PAUSE_S", "RESUME_PAUSE_S"):
        monkeypatch.setattr(f"torvyn.client.patience.{name}", 0.0)
    monkeypatch.delenv("TORVYN_KEY", raising=False)
