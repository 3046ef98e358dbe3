"""`torvyn inspect` of real components."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from torvyn._cli.app import run

Guest = Callable[[str], Path]


def test_a_component_is_shown_with_its_world_and_needs(
    guest: Guest, capsys: pytest.CaptureFixture[str]
) -> None:
    path = guest("printer")

    assert run(["inspect", str(path)]) == 0

    size = path.stat().st_size
    first, sizes, *rest = capsys.readouterr().out.splitlines()
    assert first == f"{path}: filter, world content-filter, {size} bytes"
    assert sizes.endswith(" of data, 65536 of memory at the start")
    assert rest == [
        "imports:",
        "  wasi:io/error@0.2.0",
        "  wasi:io/streams@0.2.0",
        "  wasi:cli/stdout@0.2.0",
        "  torvyn:streaming/types@0.1.0",
        "exports:",
        "  torvyn:streaming/lifecycle@0.1.0",
        "  torvyn:filtering/filter@0.1.0",
        "capabilities:",
        "  stdio:stdout",
    ]


def test_the_same_as_data(guest: Guest, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["inspect", str(guest("source")), "--format", "json"]) == 0

    facts = json.loads(capsys.readouterr().out)
    assert (facts["role"], facts["world"], facts["capabilities"]) == ("source", "data-source", [])
