"""Every example can be copied: it needs nothing outside of its folder. The tests that run examples
run copies."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
NAMES = sorted(path.parent.name for path in EXAMPLES.glob("*/README.md"))

COPIES = {
    "token-streaming-mixed/components/content-filter": "token-streaming/components/content-filter",
    "token-streaming-mixed/components/output-sink": "token-streaming-c/components/output-sink",
    "token-streaming-mixed/components/sentence-aggregator": (
        "token-streaming/components/sentence-aggregator"
    ),
    "token-streaming-mixed/components/token-source": "token-streaming-c/components/token-source",
    "token-streaming-rust/wit": "../wit",
    "token-streaming-wasm/components": "token-streaming/components",
}
"""Folder -> what its files are copies of: update them with `cp`."""


@pytest.mark.parametrize("name", NAMES)
def test_no_link_leads_out_of_an_example(name: str) -> None:
    folder = EXAMPLES / name
    links = [path for path in folder.rglob("*") if path.is_symlink()]

    assert [path for path in links if not path.resolve().is_relative_to(folder.resolve())] == []


@pytest.mark.parametrize("name", NAMES)
def test_no_component_is_outside_of_an_example(name: str) -> None:
    for file in (EXAMPLES / name).rglob("Torvyn.toml"):
        for component in tomllib.loads(file.read_text()).get("component", []):
            path = os.path.normpath(component.get("path", ""))
            assert not path.startswith(("..", "/")), f"{file}: {path}"


@pytest.mark.parametrize("copy", COPIES)
def test_a_copy_is_that_of_another_folder(copy: str) -> None:
    source = EXAMPLES / COPIES[copy]
    files = [path for path in (EXAMPLES / copy).rglob("*.*") if path.is_file()]

    own = [path for path in files if not {"build", "__pycache__"} & {*path.parts}]
    assert own
    for path in own:
        original = source / path.relative_to(EXAMPLES / copy)
        assert path.read_bytes() == original.read_bytes(), f"cp {original} {path}"
