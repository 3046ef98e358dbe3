"""The laws that every run is judged by."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from reference_model import Model
from scenario import Scenario, is_in_order
from simulator import Outcome

from torvyn.testing import check_account


def check_laws(scenario: Scenario, outcome: Outcome) -> None:
    """Raises `AssertionError` with what is wrong."""
    check_account(outcome.statistics)
    _check_sinks(outcome)
    _check_state(scenario, outcome)
    _check_lives(outcome)
    if getattr(outcome.error, "code", "") == "reactor.init-failed":
        return
    model = Model(scenario).run(_inputs(scenario, outcome))
    if outcome.state == "completed" and not scenario.drops:
        _check_equal(scenario, outcome, model)
    elif outcome.state == "failed" and _fails_in_order(scenario, outcome):
        # Nodes before the failure may have worked ahead of it, and set letters aside.
        outcome.outputs.pop("letters", None)
        _check_equal(scenario, outcome, Model(scenario).run(_all_inputs(scenario, outcome)))
    elif not _depends_on_losses(scenario):
        _check_included(outcome, Model(_forgiving(scenario)).run(_all_inputs(scenario, outcome)))


def _check_sinks(outcome: Outcome) -> None:
    """`emitted` counts what sinks accepted and what the caller got, and nothing else."""
    got = sum(len(texts) for texts in outcome.outputs.values())
    assert outcome.statistics.emitted == got, f"emitted {outcome.statistics.emitted}, got {got}"


def _check_lives(outcome: Outcome) -> None:
    """Whatever was initialised is torn down, once."""
    wrong = [life for life in outcome.lives if life[1] != life[2] or life[1] > 1]
    assert not wrong, f"initialised and torn down: {wrong}"


def _check_state(scenario: Scenario, outcome: Outcome) -> None:
    allowed = {"completed", "failed"} | (
        {"cancelled"} if scenario.ending in ("cancel", "drain", "leave") else set()
    )
    assert getattr(outcome.error, "code", "") != "reactor.panic", str(outcome.error)
    assert outcome.state in allowed, f"{outcome.state} after {scenario.ending}"
    assert (outcome.error is not None) == (outcome.state == "failed"), repr(outcome.error)


def _inputs(scenario: Scenario, outcome: Outcome) -> dict[str, list[str]]:
    """What the sources gave to the flow."""
    if scenario.driver == "feed":
        return {"": [f"f.{at}" for at in range(outcome.fed)]}
    given = {}
    for stage in scenario.stages:
        if stage.role == "source":
            edges = [e for e in outcome.statistics.edges if e.source == stage.name]
            count = max((edge.entered - edge.unread for edge in edges), default=0)
            given[stage.name] = [f"{stage.name}.{at}" for at in range(count)]
    return given


def _all_inputs(scenario: Scenario, outcome: Outcome) -> dict[str, list[str]]:
    if scenario.driver == "feed":
        return _inputs(scenario, outcome)
    sources = [stage for stage in scenario.stages if stage.role == "source"]
    return {s.name: [f"{s.name}.{at}" for at in range(s.count)] for s in sources}


def _fails_in_order(scenario: Scenario, outcome: Outcome) -> bool:
    """A component failed, in a chain that loses nothing: what precedes the failure has arrived."""
    by_component = getattr(outcome.error, "code", "").startswith("component.")
    is_plain = scenario.ending == "natural" and not scenario.drops
    return by_component and is_plain and scenario.is_chain


def _check_equal(scenario: Scenario, outcome: Outcome, model: Model) -> None:
    for name, got in outcome.outputs.items():
        expected = model.outputs.get(name, [])
        last = name or scenario.stages[-1].name
        in_order = name != "letters" and is_in_order(scenario.stages, last)
        same = got == expected if in_order else Counter(got) == Counter(expected)
        assert same, f"`{name}` got {got}, expected {expected}"


def _depends_on_losses(scenario: Scenario) -> bool:
    return any(s.role == "aggregator" or s.style in ("hold", "block") for s in scenario.stages)


def _forgiving(scenario: Scenario) -> Scenario:
    """The same scenario without failures: it produces every output that is possible."""
    stages = tuple(replace(s, fails=0, policy="skip", crash="") for s in scenario.stages)
    return replace(scenario, stages=stages)


def _check_included(outcome: Outcome, model: Model) -> None:
    """Nothing came out twice, and nothing that was never sent."""
    for name, texts in outcome.outputs.items():
        if name == "letters":
            continue
        surplus = Counter(texts) - Counter(model.outputs.get(name, []))
        assert not surplus, f"`{name}` got {dict(surplus)} too many"
