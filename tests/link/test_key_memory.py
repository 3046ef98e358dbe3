"""A node with a `key` may have the keys that its `max_keys` says, or somebody is told."""

from __future__ import annotations

import itertools
import json
import logging
from pathlib import Path

import pytest

import torvyn
from torvyn._link.key_reader import key_reader
from torvyn._link.project_linker import ProjectLinker
from torvyn.components import Window
from torvyn.components.keys.keyed_components import KEY_BYTES, KeyedComponents

MIB = 1024 * 1024
DEFAULT_KEYS, DEFAULT_BYTES = 10_000, 64 * MIB
MANIFEST = """
[torvyn]
name = "keys"
version = "1.0.0"
contract_version = "0.1.0"
{runtime}
[flow.main.nodes.in]
component = "lines"
config = {{ path = "x" }}

[flow.main.nodes.means]
component = "window"
key = "sensor"
config = {{ every = "1h", time = "at" }}
{node}
[flow.main.nodes.out]
component = "null"

[[flow.main.edges]]
from = "in"
to = "means"

[[flow.main.edges]]
from = "means"
to = "out"
"""
KEYS = (None, 100, 20_000, 47_000, 100_000, 5_000_000)
MEMORY = (None, 2 * MIB, 300 * MIB)


@pytest.mark.parametrize(
    ("max_keys", "node", "runtime"), [*itertools.product(KEYS, MEMORY, MEMORY)]
)
def test_max_keys_fit_into_the_memory_or_a_warning_says_how_many_do(
    tmp_path: Path, max_keys: int | None, node: int | None, runtime: int | None
) -> None:
    own = [] if max_keys is None else [f"max_keys = {max_keys}"]
    own += [] if node is None else [f'max_memory = "{node}B"']
    common = "" if runtime is None else f'[runtime]\nmax_memory_per_component = "{runtime}B"\n'
    manifest = tmp_path / "Torvyn.toml"
    manifest.write_text(MANIFEST.format(node="\n".join(own) + "\n", runtime=common))

    plan = ProjectLinker.open(manifest).plan()

    means = plan.node("means")
    assert means.max_keys == (max_keys or DEFAULT_KEYS)
    # What somebody has set is kept.
    assert means.max_memory_bytes == (node or runtime or means.max_memory_bytes)
    assert means.max_memory_bytes >= (node or runtime or DEFAULT_BYTES)
    warned = [each for each in plan.warnings if each.code == "link.keys-exceed-memory"]
    fitting = means.max_memory_bytes // KEY_BYTES
    assert bool(warned) == (max_keys is not None and max_keys > fitting)
    for each in warned:
        assert f"at most {fitting}" in each.message
        assert each.hint is not None
        assert "max_memory" in each.hint


def test_a_hundred_thousand_windows_fit_where_max_keys_allows_them(tmp_path: Path) -> None:
    manifest = tmp_path / "Torvyn.toml"
    manifest.write_text(MANIFEST.format(node="max_keys = 100_000\n", runtime=""))
    node = ProjectLinker.open(manifest).plan().node("means")
    keyed = KeyedComponents(Window, key_reader("sensor"), node.max_keys, node.max_memory_bytes)
    keyed.init(json.dumps({"every": "1h", "time": "at"}), None)
    for number in range(node.max_keys):
        keyed.call(torvyn.Element(f'{{"sensor": "sensor-{number:06}", "at": 1}}'))
    assert keyed.counts["keys"] == node.max_keys
    assert keyed.counts["evicted"] == 0


def test_keys_that_are_evicted_by_memory_are_counted_and_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    flow = torvyn.Flow().add("in", [f'{{"sensor": {n}, "at": 1}}' for n in range(50)])
    window = Window({"every": "1h", "time": "at"})
    flow.add("means", window, key="sensor", max_keys=40, max_memory_bytes=16 * KEY_BYTES)
    flow.add("out", "null").connect("in", "means").connect("means", "out")
    with caplog.at_level(logging.WARNING):
        flow.run()
    counts = flow.statistics.nodes["means"].counts
    assert counts["evicted by memory"] == counts["evicted"] == 39
    [said] = [each for each in caplog.records if each.name == "torvyn.keys"]
    assert "node `means` evicts keys before it has `max_keys` (40): 12 keys" in said.getMessage()
