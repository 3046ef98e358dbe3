"""What a flow takes in the reactor, as it says itself and as the allocator counts it."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from benches.allocator import environment, missing
from scale import sample

import torvyn
from torvyn._link.plan import ComponentRef
from torvyn.testing import CountingSource, StallingSink, idle, run_flow

ROOT = Path(__file__).parents[3]
PROGRAM = Path(__file__).with_name("built_flows.py")
GRAPHS = sample(12, full=300)
STATE_BYTES = 4096
NODE_BYTES = 500
"""With its edge."""
PIECE_BYTES = 24
"""What the allocator may add to a piece: its size, and the rest up to a multiple of 16 bytes."""


class Passing(torvyn.Processor):
    def process(self, element: torvyn.Element) -> Any:
        return element


def state_bytes(nodes: int) -> int:
    stages = [Passing() for _ in range(nodes - 2)]
    ran = run_flow(CountingSource(), *stages, StallingSink(after=0), until=idle)
    return ran.flow.memory()["state_bytes"]


@pytest.mark.promise("edge.reactor-state")
def test_a_further_node_takes_500_bytes_at_most() -> None:
    counts = (2, 3, 4, 5, 8, 20)
    sizes = {nodes: state_bytes(nodes) for nodes in counts}

    for before, after in pairwise(counts):
        assert sizes[after] - sizes[before] <= (after - before) * NODE_BYTES
    assert sizes[4] < STATE_BYTES


@pytest.mark.promise("edge.reactor-state")
def test_the_token_streaming_example_takes_less_than_4_kb() -> None:
    plan = torvyn.load(ROOT / "examples" / "token-streaming" / "Torvyn.toml").plan("main")
    *others, sink = plan.nodes
    stalling = ComponentRef("object", "sink", "", instance=StallingSink(after=1))
    nodes = (*others, replace(sink, component=stalling))

    # It waits in the second sentence, after the filter has dropped a token.
    ran = run_flow(torvyn._flow.flow.Flow.from_plan(replace(plan, nodes=nodes)), until=idle)

    assert (len(nodes), ran.statistics.filtered) == (4, 1)
    assert ran.flow.memory()["state_bytes"] < STATE_BYTES


def test_what_a_flow_counts_later_does_not_add_to_its_state() -> None:
    ran = run_flow(CountingSource(), Passing(), StallingSink(after=50), until=idle)
    before = ran.flow.memory()["state_bytes"]
    assert ran.statistics.emitted > 50

    assert ran.flow.memory()["state_bytes"] == before


@pytest.mark.skipif(missing() is not None, reason=f"{missing()}")
@pytest.mark.promise("edge.reactor-state")
def test_a_flow_takes_from_the_allocator_what_it_says() -> None:
    """Random graphs of Python and native components."""
    seed = random.Random(0).randrange(2**20)

    graphs = built(seed, GRAPHS)

    assert len(graphs) == GRAPHS
    for graph in graphs:
        told = graph["state"]
        # The flow, its core, its shared state, lists; a component and what few components have.
        pieces = 10 + 3 * graph["nodes"]
        assert told <= graph["allocated"] <= told + pieces * PIECE_BYTES, graph


def built(seed: int, count: int) -> list[dict[str, int]]:
    command = [sys.executable, str(PROGRAM), str(seed), str(count)]
    env = {**environment(), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]
