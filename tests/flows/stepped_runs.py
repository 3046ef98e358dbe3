"""Drives a flow whose thread and async stages are stepped: one step at a time, in a seeded order.

No thread, no loop, no real time: the same seed makes the same run.
"""

import random

from torvyn._contract.enums import TurnStatus
from torvyn._flow.stepped_runner import StepScheduler
from torvyn.testing import Clock


class SteppedRun:
    def __init__(self, flow, seed=0):
        self.flow = flow
        self.scheduler = StepScheduler(flow._clock)
        self.order = []
        self._random = random.Random(seed)
        self._execution = flow._execute(scheduler=self.scheduler)
        self._native = self._execution.start()
        self.outputs = []

    def go(self, most=100_000):
        for _ in range(most):
            status, _ = self._native.turn_once()
            self.outputs += self._native.outputs()
            if status is TurnStatus.OVER:
                break
            self._move_one(status)
        else:
            raise AssertionError(f"not over after {most} steps: {self.flow.statistics.to_dict()}")
        self._execution.close()
        self._execution.raise_failure()
        return self

    def _move_one(self, status):
        movable = [runner for runner in self.scheduler.runners if runner.can_step]
        if movable:
            runner = self._random.choice(movable)
            self.order.append(runner.node.name)
            runner.step_once()
        elif status is TurnStatus.PARKED:
            # To when a stage is due; what the reactor itself waits for it does not say.
            due_ns = self.scheduler.next_due_ns
            wait_ns = 1_000_000 if due_ns is None else due_ns - self.scheduler.now_ns
            self.flow._clock.advance_ns(wait_ns)


def run_stepped(flow, seed=0):
    assert isinstance(flow._clock, Clock), "a stepped flow lives by a clock moved by hand"
    return SteppedRun(flow, seed).go()
