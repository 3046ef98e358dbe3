"""Guests that misbehave as parts of flows, and a process of its own for what might kill one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from faulty import GUESTS, PRELUDE, Apart, Part

from torvyn._sandbox.component import GuestComponent, GuestLimits, guest_class


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def part() -> Part:
    """A guest by name, with a config and an limits."""

    def make(name: str, config: str = "", **allowed: Any) -> GuestComponent:
        made = guest_class(GUESTS[name], name)()
        made.set_limits(GuestLimits(name, **allowed))
        made.config = config
        return made

    return make


@pytest.fixture
def apart(tmp_path: Path) -> Apart:
    """Runs a program in a process of its own and gives its `answer`; a signal fails the test."""

    def run(program: str, *arguments: object, timeout_s: float = 50) -> Any:
        file = tmp_path / "program.py"
        file.write_text(PRELUDE + textwrap.dedent(program))
        command = [sys.executable, str(file), *map(str, arguments)]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=timeout_s, check=False, env=os.environ
        )
        assert done.returncode == 0, f"exit {done.returncode}: {done.stderr[-2000:]}"
        return json.loads(done.stdout.splitlines()[-1])

    return run
