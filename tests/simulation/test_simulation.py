"""The reactor under a seeded scheduler: random flows, endings and orders, judged by the laws."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest
from check import check_seeds, complaint_of, replay
from judge import judge
from real import run_really
from scenario import ENDINGS, MODES, Edge, Scenario, Stage, scenario
from shrink import shrink
from world import simulate

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
    made = [scenario(seed) for seed in range(SEEDS)]
    assert {each.ending for each in made} == set(ENDINGS)
    assert {stage.mode for each in made for stage in each.stages} == set(MODES)
    assert {each.driver for each in made} == {"run", "iterate", "feed"}
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


def _is_decided(made: Scenario) -> bool:
    """Whether the result does not depend on time or on who comes first."""
    return made.driver != "feed" and made.ending in ("natural", "limit") and not made.drops


def test_the_real_reactor_agrees():
    logging.disable(logging.CRITICAL)  # Components fail on purpose.
    chosen = [made for made in map(scenario, range(2000)) if _is_decided(made)][:REAL]
    for made in chosen:
        simulated, real = simulate(made), run_really(made)
        judge(made, real)
        assert (made.seed, real.state) == (made.seed, simulated.state)


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
    monkeypatch.setattr("parts.made_of", lambda stage, text: [] if text == "s0.7" else [text + "m"])
    assert "expected" in (complaint_of(LOST) or "")


def test_a_failing_scenario_is_shrunk_to_its_cause():
    def fails(made):
        return any(s.role == "processor" and made.stage("s0").count > 3 for s in made.stages)

    small = shrink(replace(LOST, ending="cancel", at=30), fails)
    assert [stage.role for stage in small.stages] == ["source", "processor", "sink"]
    assert (small.stage("s0").count, small.ending, small.at) == (5, "natural", 0)
    assert {stage.mode for stage in small.stages} == {"inline"}
