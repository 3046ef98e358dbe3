"""The simulator: a seeded scheduler, a manual clock, and stages that run one step at a time.

A run is a list of moves: a turn of the reactor, a step of a stage, time that passes, a read, a
call that resumes a waiting component. The seed chooses the next move, so a run can be repeated
exactly.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from scenario import Scenario, Stage
from simulated_components import RecordingSink, component_for

import torvyn
from torvyn._contract.enums import TurnStatus
from torvyn._flow.statistics import Statistics
from torvyn._flow.stepped_runner import StepScheduler
from torvyn.errors import LinkError, TorvynError
from torvyn.testing import Clock, CollectingSink, check_account

MOST_MOVES = 20_000
MOST_IDLE = 40
"""Moves in a row that only let time pass: then nothing will ever happen again."""
FED = 30
"""Elements that a flow without a source is fed."""


@dataclass
class Outcome:
    state: str
    statistics: Statistics
    outputs: dict[str, list[str]]
    error: BaseException | None = None
    moves: list[str] = field(default_factory=list)
    fed: int = 0
    lives: list[tuple[str, int, int]] = field(default_factory=list)
    """How often each component was initialised and torn down."""


def policy_of(stage: Stage) -> Any:
    return {
        "retry": {"policy": "retry", "max": 2, "backoff": 0.01, "then": "skip"},
        "dead-letter": {"policy": "dead-letter", "to": "letters"},
    }.get(stage.policy, stage.policy)


def build(scenario: Scenario, world: Any, **options: Any) -> tuple[torvyn.Flow, dict[str, Any]]:
    """The flow, and its sinks by name."""
    if scenario.ending == "deadline":
        options["deadline_s"] = 0.05 * (1 + scenario.at)
    flow, sinks, connections = torvyn.Flow(**options), {}, []
    for stage in scenario.stages:
        component = component_for(stage, world)
        run = "thread" if stage.mode == "thread" else None
        flow.add(stage.name, component, on_error=policy_of(stage), run=run)
        if isinstance(component, RecordingSink):
            sinks[stage.name] = component
        connections += [(edge, stage.name) for edge in stage.inputs]
    if any(stage.policy == "dead-letter" for stage in scenario.stages):
        sinks["letters"] = CollectingSink()
        flow.add("letters", sinks["letters"])
    for edge, target in connections:
        flow.connect(
            edge.source,
            target,
            queue_depth=edge.depth,
            queue_bytes=edge.limit_bytes,
            backpressure=edge.backpressure,  # type: ignore[arg-type]
        )
    if scenario.ending == "limit":
        flow.limit(scenario.at)
    return flow, sinks


class Simulation:
    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.random = random.Random(scenario.seed)
        self.clock = Clock()
        self.scheduler = StepScheduler(self.clock)
        self.waiting: list[tuple[Any, str]] = []
        self.components: list[Any] = []
        self.flow, self.sinks = build(scenario, self, clock=self.clock)
        self.outputs: list[str] = []
        self.moves: list[str] = []
        self.fed = 0
        self._is_finished = False
        self._status = TurnStatus.AGAIN
        self._idle = 0

    # What the components ask of their world

    def sleep(self, seconds: float) -> Awaitable[None]:
        return self.scheduler.sleep(seconds)

    def wait_for(self, component: Any, act: str) -> None:
        self.waiting.append((component, act))

    # The scheduler

    def run(self) -> Outcome:
        try:
            self._execution = self.flow._execute(scheduler=self.scheduler)
            self._native = self._execution.start()
        except TorvynError as error:
            return self._outcome(error)
        for number in range(MOST_MOVES):
            self._end_if_time(number)
            if self._native.is_over:
                break
            self._move()
            if number % 16 == 0:
                check_account(self.flow.statistics)
        else:
            raise AssertionError(f"not over after {MOST_MOVES} moves")
        self._read(1 << 20)
        self._execution.close()
        return self._outcome(self._execution.error)

    def _outcome(self, error: BaseException | None) -> Outcome:
        texts = {name: list(sink.texts) for name, sink in self.sinks.items()}
        texts[""] = self.outputs
        outcome = Outcome(self.flow.state, self.flow.statistics, texts, error, self.moves, self.fed)
        outcome.lives = [
            (component.stage.name, component.inits, component.teardowns)
            for component in self.components
        ]
        return outcome

    def _end_if_time(self, number: int) -> None:
        ending, at = self.scenario.ending, self.scenario.at
        if ending in ("cancel", "drain", "interrupt") and number == at:
            getattr(self.flow, ending)()
            self._status = TurnStatus.AGAIN
        if ending == "leave" and self.scenario.driver == "iterate" and len(self.outputs) >= at:
            self._execution.close()

    def _move(self) -> None:
        choices: list[tuple[str, Callable[[], None]]] = []
        movable = [runner for runner in self.scheduler.runners if runner.can_step]
        choices += [(f"step {runner.node.name}", runner.step_once) for runner in movable]
        if self._status is not TurnStatus.PARKED or self.random.random() < 0.1:
            choices += [("turn", self._turn)] * 2
        choices += [("resume", self._resume)] if self.waiting else []
        if self.scenario.driver != "run":
            choices += [("read", lambda: self._read(self.random.choice((1, 1, 4, 64))))]
        if self.scenario.driver == "feed" and not self._is_finished:
            choices += [("feed", self._feed)]
        if not choices or self.random.random() < 0.05:
            choices = [("time", self._let_time_pass)]
        name, act = self.random.choice(choices)
        before = len(self.outputs), self.fed
        self.moves.append(name)
        act()
        if name.startswith(("step", "turn", "resume")):
            self._status = TurnStatus.AGAIN if name != "turn" else self._status
        is_idle = name in ("time", "read", "turn") and before == (len(self.outputs), self.fed)
        self._idle = self._idle + 1 if is_idle and self._status is TurnStatus.PARKED else 0
        if self._idle > MOST_IDLE * 10:
            raise AssertionError("nothing moves any more")

    def _turn(self) -> None:
        self._status, _ = self._native.turn_once()

    def _resume(self) -> None:
        at = self.random.randrange(len(self.waiting))
        component, act = self.waiting.pop(at)
        getattr(component, act)()

    def _read(self, most: int) -> None:
        got = self._native.outputs(most)
        self.outputs += [element.text for element in got]
        if got:
            self._status = TurnStatus.AGAIN

    def _feed(self) -> None:
        """The caller feeds by the native handle, as `Flow.feed` does, and finishes at some time."""
        self._status = TurnStatus.AGAIN
        if self.fed == FED or (self.scenario.ending == "leave" and self.fed >= self.scenario.at):
            self._is_finished = True
            self.outputs += [element.text for element in self._native.finish_feed(None)]
            return
        out, taken = self._native.feed([f"f.{self.fed}"])
        self.outputs += [element.text for element in out]
        self.fed += taken

    def _let_time_pass(self) -> None:
        due_ns = self.scheduler.next_due_ns
        wait_ns = self.random.choice((1_000, 1_000_000, 20_000_000))
        if due_ns is not None and self.random.random() < 0.5:
            wait_ns = max(due_ns - self.scheduler.now_ns, 0)
        self.clock.advance_ns(wait_ns)
        self._status = TurnStatus.AGAIN


def simulate(scenario: Scenario) -> Outcome:
    try:
        return Simulation(scenario).run()
    except LinkError as error:  # A scenario that does not link is a mistake of its maker.
        raise AssertionError(f"seed {scenario.seed}: {error}") from error
