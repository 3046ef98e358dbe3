"""Every test of the engine runs with the native client and with aiohttp."""

from __future__ import annotations

import pytest

from torvyn.engine.openai import engine


@pytest.fixture(autouse=True, params=["native", "aiohttp"])
def client(request, monkeypatch) -> str:
    monkeypatch.setattr(engine, "DEFAULT_CLIENT", request.param)
    name: str = request.param
    return name
