"""`torvyn check` looks into what flows have stored."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from torvyn._durable.backend import Append, LogOptions, Transaction
from torvyn._durable.disk.store import DurableStore

MANIFEST = """
[torvyn]
name = "stored"
version = "0.1.0"
contract_version = "0.1.0"
[flow.main.nodes.source]
component = "lines"
config = "readings.txt"
[flow.main.nodes.sink]
component = "null"
[[flow.main.edges]]
from = "source"
to = "sink"
carrier = "disk"
max_bytes = "16MiB"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "Torvyn.toml").write_text(MANIFEST)
    (tmp_path / "readings.txt").write_text("one\n")
    with DurableStore.open(
        tmp_path / ".torvyn/main/flow.db", {"log": LogOptions(4 << 20)}
    ) as store:
        store.commit(Transaction([Append("log", 0, 7, b"x" * 9_000, 0)]))
    return tmp_path


def check(folder: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "torvyn", "check", "--format", "json"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_intact_data_is_no_problem(folder: Path) -> None:
    assert check(folder)["problems"] == []


def test_damaged_data_is_a_warning_and_stays_as_it_is(folder: Path) -> None:
    path = folder / ".torvyn/main/flow.db"
    path.write_bytes(damaged := path.read_bytes().replace(b"x" * 100, b"y" * 100, 1))

    (problem,) = check(folder)["problems"]

    assert (problem["code"], problem["severity"]) == ("durable.damaged", "warning")
    assert "log `log`: the elements 0 to 6 are damaged or missing" in problem["message"]
    assert path.read_bytes() == damaged
