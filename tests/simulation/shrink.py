"""Finds the smallest scenario that still fails, for a person to inspect."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from scenario import Edge, Scenario, Stage


def shrink(scenario: Scenario, fails: Callable[[Scenario], bool]) -> Scenario:
    """Tries simpler scenarios as long as one of them fails too."""
    found = True
    while found:
        found = False
        for simpler in _simpler(scenario):
            if fails(simpler):
                scenario, found = simpler, True
                break
    return scenario


def _simpler(scenario: Scenario) -> Iterator[Scenario]:
    for at, stage in enumerate(scenario.stages):
        if len(stage.inputs) == 1 and stage.role in ("filter", "processor", "stream", "aggregator"):
            yield _without(scenario, at)
    if scenario.ending != "natural":
        yield replace(scenario, ending="natural")
    if scenario.at:
        yield replace(scenario, at=scenario.at // 2)
    for at, stage in enumerate(scenario.stages):
        for plainer in _plainer(stage):
            stages = (*scenario.stages[:at], plainer, *scenario.stages[at + 1 :])
            yield replace(scenario, stages=stages)


def _plainer(stage: Stage) -> Iterator[Stage]:
    if stage.count > 1:
        yield replace(stage, count=stage.count // 2)
    if stage.mode != "inline" and stage.role != "stream":
        yield replace(stage, mode="inline")
    if stage.fails:
        yield replace(stage, fails=0)
    if stage.batches:
        yield replace(stage, batches="")
    if stage.slow:
        yield replace(stage, slow=0)
    if stage.policy != "skip" and not stage.fails:
        yield replace(stage, policy="skip")
    for at, edge in enumerate(stage.inputs):
        if edge != Edge(edge.source):
            inputs = (*stage.inputs[:at], Edge(edge.source), *stage.inputs[at + 1 :])
            yield replace(stage, inputs=inputs)


def _without(scenario: Scenario, at: int) -> Scenario:
    """A stage is taken out, and those after it take from the one before it."""
    gone = scenario.stages[at]
    source = gone.inputs[0].source

    def rewired(stage: Stage) -> Stage:
        moved = (replace(e, source=source) if e.source == gone.name else e for e in stage.inputs)
        return replace(stage, inputs=tuple(dict.fromkeys(moved)))

    rest = (*scenario.stages[:at], *scenario.stages[at + 1 :])
    return replace(scenario, stages=tuple(map(rewired, rest)))
