"""The reactor under a seeded scheduler: random flows, endings and orders, judged by the laws."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest
from law_checks import check_laws
from real_run import run_on_reactor
from scenario import BATCHES, ENDINGS, MODES, Edge, Scenario, Stage, make_scenario
from seed_runs import check_seeds, failure_of, replay
from shrink import shrink
from simulator import simulate

SEEDS = 200
REAL = 60


@pytest.fixture(autouse=True)
def _quiet(caplog):
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("first", range(0, SEEDS, 50))
def test_seeds_obey_the_laws(first):
    assert check_seeds(first, 50) == []


def test_seeds_cover_every_ending_mode_and_driver():
    scenarios = [make_scenario(seed) for seed in range(SEEDS)]
    assert {each.ending for each in scenarios} == set(ENDINGS)
    assert {stage.mode for each in scenarios for stage in each.stages} == set(MODES)
    assert {each.driver for each in scenarios} == {"run", "iterate", "feed"}
    assert {stage.batches for each in scenarios for stage in each.stages} == {"", *BATCHES}
    states = {replay(seed).state for seed in range(40)}
    assert states == {"completed", "cancelled", "failed"}


@pytest.mark.parametrize("seed", range(0, 200, 20))
def test_a_seed_replays_exactly(seed):
    first, second = replay(seed), replay(seed)

    assert first.moves == second.moves
    assert first.outputs == second.outputs
    assert _figures(first) == _figures(second)


def _figures(outcome):
    """All that was counted; how long it took is the machine's."""
    facts = outcome.statistics.to_dict()
    del facts["elapsed_s"]
    for node in facts["nodes"].values():
        del node["mean_call_ns"]
    return facts


def _is_decided(scenario: Scenario) -> bool:
    """Whether the result does not depend on time or on who comes first."""
    return (
        scenario.driver != "feed" and scenario.ending in ("natural", "limit") and not scenario.drops
    )


def test_the_real_reactor_agrees():
    logging.disable(logging.CRITICAL)  # Components fail on purpose.
    chosen = list(filter(_is_decided, map(make_scenario, range(2000))))[:REAL]
    for scenario in chosen:
        simulated, real = simulate(scenario), run_on_reactor(scenario)
        check_laws(scenario, real)
        assert (scenario.seed, real.state) == (scenario.seed, simulated.state)


LOST = Scenario(
    seed=1,
    stages=(
        Stage("s0", "source", "thread", "iter", count=40),
        Stage("n1", "processor", "async", "map", (Edge("s0", 2),), slow=3),
        Stage("k0", "sink", "thread", "plain", (Edge("n1", 1),)),
    ),
    driver="run",
    ending="natural",
    at=0,
)


def test_a_lost_element_is_found(monkeypatch):
    """A reactor that loses an element is caught: here the component swallows one."""
    monkeypatch.setattr(
        "simulated_components.outputs_of",
        lambda stage, text: [] if text == "s0.7" else [text + "m"],
    )
    assert "expected" in (failure_of(LOST) or "")


def test_a_failing_scenario_is_shrunk_to_its_cause():
    def fails(scenario):
        return any(
            s.role == "processor" and scenario.stage("s0").count > 3 for s in scenario.stages
        )

    small = shrink(replace(LOST, ending="cancel", at=30), fails)
    assert [stage.role for stage in small.stages] == ["source", "processor", "sink"]
    assert (small.stage("s0").count, small.ending, small.at) == (5, "natural", 0)
    assert {stage.mode for stage in small.stages} == {"inline"}
